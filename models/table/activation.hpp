// The activation functions of MLPs, under the names that transformers gives them (ACT2FN). No Torch here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::models {

/// An activation function: y = f(x), element by element, without parameters of its own.
enum class activation : uint8_t {
  gelu_tanh,      ///< GELU, with its tanh approximation
  gelu_exact,     ///< x Phi(x)
  silu,           ///< x sigmoid(x)
  relu,           ///< max(x, 0)
  gelu_clipped,   ///< exact GELU, limited to [-10, 10]
  hardswish,      ///< x min(max(x + 3, 0), 6) / 6
  laplace,        ///< the normal distribution with mean 0.707107 and deviation 0.282095
  leaky_relu,     ///< x, or 0.01 x below 0
  linear,         ///< x
  mish,           ///< x tanh(softplus(x))
  quick_gelu,     ///< x sigmoid(1.702 x)
  relu6,          ///< min(max(x, 0), 6)
  relu_squared,   ///< max(x, 0)^2
  sigmoid,        ///< 1 / (1 + exp(-x))
  sqrt_softplus,  ///< sqrt(log(1 + exp(x)))
  tanh            ///< tanh(x)
};

inline constexpr std::array all_activations{
    activation::gelu_tanh,    activation::gelu_exact, activation::silu,          activation::relu,
    activation::gelu_clipped, activation::hardswish,  activation::laplace,       activation::leaky_relu,
    activation::linear,       activation::mish,       activation::quick_gelu,    activation::relu6,
    activation::relu_squared, activation::sigmoid,    activation::sqrt_softplus, activation::tanh};

/// Returns the activation that transformers calls `name`; nullopt if Troupe does not have it.
std::optional<activation> activation_named(std::string_view name);

/// Returns transformers' name of the activation; of several names, the first in the list of activation_names().
std::string_view name_of(activation act);

/// Returns the names that activation_named() accepts, for messages: "gelu_new, gelu or silu".
std::string activation_names();

/// True if transformers' activation `name` has trained parameters of its own, which Troupe's models do not have.
bool has_parameters(std::string_view name);

/// True if the backward of an activation that no kernel computes reads its input. False: it reads the output, or the
/// output is the input, so that one tensor is kept for it and for the linear layer behind it.
constexpr bool keeps_input(activation act) {
  return act != activation::relu && act != activation::sigmoid && act != activation::tanh && act != activation::linear;
}

}  // namespace troupe::models
