// A pass over the units of the host's model: makes a linear layer and the activation after it one unit or entry. Owns
// the cases in which that changes no tensor that other code sees; torch computes the same operations, so the bits stay.
//
// The result of an activation whose backward reads only its result (ReLU, Tanh) overwrites the linear layer's output,
// which no other code reads: one tensor is kept instead of two, and memory is traversed once less. The backward of GELU
// and SiLU reads their input, so fusing them saves only the input that a separate unit would keep if units are
// recomputed.
#pragma once

#include <string>

#include "models/host/unit_pass.hpp"

namespace troupe::models {

/// Fuses activations into linear layers.
///
/// - Units: a unit whose module is a torch::nn::Linear, and the next unit, whose module is a torch::nn::ReLU or Tanh
///   (or GELU or SiLU, if units are recomputed), become one unit with the linear layer's name, module and parameters,
///   if the forward of both only calls the module's forward. The modules may exist already or be made by a factory
///   later. Units are not changed if there are several tensor-parallel ranks, or if the configuration names units by
///   position or type.
/// - Sequentials: if a Sequential is a unit and no function of the host calls it, an entry that is a linear layer
///   computes the ReLU or Tanh after it, and the activation's entry returns its input; the registered modules stay.
///
/// Returns the reason for the change, empty if nothing changed.
std::string fuse_activations(module_model& m, const unit_surroundings& s);

}  // namespace troupe::models
