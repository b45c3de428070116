// Prices one training step on one card and stack: layers, pipeline, exchanges and update. Owns the breakdown, whose
// parts add up to the step. The terms of a layer are in kernel_cost and collective_cost.
#pragma once

#include "core/error.hpp"
#include "hardware/constants.hpp"
#include "hardware/workload.hpp"

namespace troupe::hardware {

/// Seconds of one layer and micro-batch on one GPU. Products, attention and element-wise traffic contain forward,
/// backward and what is recomputed.
struct layer_cost {
  double products_s = 0, attention_s = 0, elementwise_s = 0;
  double tensor_s = 0;                   ///< exchanges among tensor ranks that products do not hide
  double context_s = 0;                  ///< rings of keys and values that attention does not hide
  double device_s = 0;                   ///< sum of the five above
  double host_s = 0;                     ///< the host's time to launch the layer
  double forward_s = 0, backward_s = 0;  ///< device and host together; gathers are left out
  double gather_s = 0, scatter_s = 0;    ///< one gather and one reduce-scatter of the layer's parameters (ZeRO 2 and 3)
  double whole_s = 0;                    ///< forward and backward with the part of gathers that they do not hide
};

/// Seconds of one step. compute, exposed communication, host, bubble, update and straggler add up to step_s exactly, in
/// this order.
struct step_cost {
  double compute_s = 0;                ///< products, attention, element-wise traffic of the slowest stage
  double exposed_communication_s = 0;  ///< collectives and transfers that nothing hides
  double host_s = 0;                   ///< what the host adds to the device's time
  double bubble_s = 0;                 ///< filling and draining of the pipeline
  double update_s = 0;                 ///< optimizer
  double straggler_s = 0;              ///< wait for the slowest of all ranks
  double step_s = 0;

  layer_cost layer;
  double head_s = 0;    ///< head, loss and the gathers of the vocabulary's matrix, one micro-batch
  double send_s = 0;    ///< one activation to the next stage
  double flow_s = 0;    ///< all micro-batches through the pipeline
  double reduce_s = 0;  ///< exposed all-reduce of gradients
};

/// Returns the parameters of one layer, and those of the vocabulary's matrix with learned positions, on all ranks.
double layer_parameters(const workload& w);
double table_parameters(const workload& w);
/// Returns the layers of an inner stage; embedding and head count where the workload says so.
double layers_of_stage(const workload& w);

/// Returns the price of a layer. All constants that the workload needs must be present: see needs_of_step().
layer_cost cost_of_layer(const workload& w, const card& on, const constants& c);
/// Returns the price of a step, under the same condition.
step_cost cost_of_step(const workload& w, const card& on, const constants& c);

/// Refuses a workload for whose step a constant of the stack or a rate of the card is absent, by the constant's name.
core::result<void> needs_of_step(const workload& w, const card& on, const constants& c);

}  // namespace troupe::hardware
