// Activations by number: 0 none, 1 SiLU, 2 GELU, 3 GELU by tanh, 4 GELU by sigmoid, 5 ReLU, 6 squared ReLU, 7 tanh,
// 8 sigmoid, 9 exponential, 10 softplus, 11 ELU.

fn activate(kind: u32, value: f32) -> f32 {
  switch kind {
    case 1u: {
      return value / (1.0 + exp(-value));
    }
    case 2u: {
      return 0.5 * value * (1.0 + error_function(value * 0.70710678));
    }
    case 3u: {
      return 0.5 * value * (1.0 + bounded_tanh(0.79788456 * (value + 0.044715 * value * value * value)));
    }
    case 4u: {
      return value / (1.0 + exp(-1.702 * value));
    }
    case 5u: {
      return max(value, 0.0);
    }
    case 6u: {
      let positive = max(value, 0.0);
      return positive * positive;
    }
    case 7u: {
      return bounded_tanh(value);
    }
    case 8u: {
      return 1.0 / (1.0 + exp(-value));
    }
    case 9u: {
      return exp(value);
    }
    case 10u: {
      return softplus(value);
    }
    case 11u: {
      return max(value, 0.0) + (exp(min(value, 0.0)) - 1.0);
    }
    default: {
      return value;
    }
  }
}

// On some devices, tanh overflows far from 0.
fn bounded_tanh(value: f32) -> f32 {
  return tanh(clamp(value, -20.0, 20.0));
}

// `max(x, 0) + log(1 + e)` with `e = exp(-|x|)`. The logarithm is computed by its series in `e / (2 + e)`, which is at
// most 1/3. Unlike `log(1 + e)`, the series is accurate for small e, where 1 + e rounds to 1.
fn softplus(value: f32) -> f32 {
  let e = exp(-abs(value));
  let s = e / (2.0 + e);
  let q = s * s;
  let series = ((((q / 11.0 + 1.0 / 9.0) * q + 1.0 / 7.0) * q + 0.2) * q + 1.0 / 3.0) * q + 1.0;
  return max(value, 0.0) + 2.0 * s * series;
}

// Formula 7.1.26 of Abramowitz and Stegun, with an error below 1.5e-7.
fn error_function(value: f32) -> f32 {
  let t = 1.0 / (1.0 + 0.3275911 * abs(value));
  let series =
    ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return sign(value) * (1.0 - series * exp(-value * value));
}
