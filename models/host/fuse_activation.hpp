// The pass that computes a linear layer and the activation after it as one. Owns the cases in which that changes no
// visible tensor; torch computes the arithmetic, in the same order, so the bits stay the same.
//
// An activation whose backward reads its result (ReLU, Tanh) is written over the linear layer's output, which nothing
// else reads: one tensor is kept instead of two, and memory is traversed once less. GELU and SiLU read their input, so
// fusing them saves nothing, except the input that a unit of theirs would keep if units are recomputed.
#pragma once

#include <string>

#include "models/host/unit_pass.hpp"

namespace troupe::models {

/// Fuses activations into linear layers.
///
/// - Units: a torch::nn::Linear, called as it is, directly before a unit that is torch::nn::ReLU or Tanh (or GELU or
///   SiLU, if units are recomputed) becomes one unit with the linear layer's name, module and parameters, built or by
///   its factory. Units stay as they are with several tensor ranks, and if units are numbered.
/// - Sequentials: if a Sequential is a unit and no code of the host's calls it, an entry that is such a linear layer
///   computes the ReLU or Tanh after it, and the activation's entry returns its input; the registered modules stay.
///
/// Returns the reason for the change, empty if nothing changed.
std::string fuse_activations(module_model& m, const unit_surroundings& s);

}  // namespace troupe::models
