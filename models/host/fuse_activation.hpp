// The pass that computes a linear layer and the activation behind it as one. Owns where that changes nothing that
// anybody sees; the arithmetic is torch's own, in the same order, so bits stay.
//
// An activation whose backward reads its result (ReLU, Tanh) is written over the linear layer's output, which nobody
// reads otherwise: one tensor is kept where there were two, and memory is passed over once less. GELU and SiLU read
// what they took, so nothing is saved but, where units are recomputed, the input that a unit of theirs keeps.
#pragma once

#include <string>

#include "models/host/unit_pass.hpp"

namespace troupe::models {

/// Units: torch::nn::Linear, called as it is, directly in front of a unit that is torch::nn::ReLU or Tanh, or where
/// units are recomputed GELU or SiLU, becomes one unit with the linear layer's name, module and parameters, built or by
/// its factory. Over tensor ranks, and where units are numbered, units stay. Sequentials: an entry that is such a
/// linear layer computes the ReLU or Tanh behind it, whose entry gives on what it takes, where the Sequential is a unit
/// and nothing of the host's calls it; what it registers stays.
std::string fuse_activations(module_model& m, const unit_surroundings& s);

}  // namespace troupe::models
