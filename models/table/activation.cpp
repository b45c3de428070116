#include "models/table/activation.hpp"

#include <algorithm>

namespace troupe::models {
namespace {

struct named_activation {
  std::string_view name;
  activation act;
};

/// Transformers' names. Several names of one function differ there in how it is computed, and so in rounding alone.
constexpr named_activation names[] = {{"gelu_new", activation::gelu_tanh},
                                      {"gelu_pytorch_tanh", activation::gelu_tanh},
                                      {"gelu_python_tanh", activation::gelu_tanh},
                                      {"gelu_fast", activation::gelu_tanh},
                                      {"gelu_accurate", activation::gelu_tanh},
                                      {"gelu", activation::gelu_exact},
                                      {"gelu_python", activation::gelu_exact},
                                      {"gelu_10", activation::gelu_clipped},
                                      {"quick_gelu", activation::quick_gelu},
                                      {"silu", activation::silu},
                                      {"swish", activation::silu},
                                      {"hardswish", activation::hardswish},
                                      {"mish", activation::mish},
                                      {"relu", activation::relu},
                                      {"relu2", activation::relu_squared},
                                      {"relu6", activation::relu6},
                                      {"leaky_relu", activation::leaky_relu},
                                      {"sigmoid", activation::sigmoid},
                                      {"tanh", activation::tanh},
                                      {"laplace", activation::laplace},
                                      {"sqrtsoftplus", activation::sqrt_softplus},
                                      {"linear", activation::linear}};

}  // namespace

std::optional<activation> activation_named(std::string_view name) {
  const auto* const at = std::ranges::find(names, name, &named_activation::name);
  return at == std::end(names) ? std::nullopt : std::optional(at->act);
}

std::string_view name_of(activation act) {
  const auto* const at = std::ranges::find(names, act, &named_activation::act);
  return at == std::end(names) ? std::string_view("?") : at->name;
}

std::string activation_names() {
  std::string out;
  for (const named_activation& each : names) {
    if (!out.empty()) out += &each + 1 == std::end(names) ? " or " : ", ";
    out += each.name;
  }
  return out;
}

bool has_parameters(std::string_view name) { return name == "prelu" || name == "xielu"; }

}  // namespace troupe::models
