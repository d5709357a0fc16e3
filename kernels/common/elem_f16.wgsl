// Single elements of an f16 tensor.
enable f16;
alias elem = f16;
