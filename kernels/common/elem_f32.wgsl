// Single elements of an f32 tensor.
alias elem = f32;
