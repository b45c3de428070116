// Prices the instructions and collectives of a job's plans by the constants of a stack (hardware/), so that its actors
// run on a virtual clock as on a card that is not here. Owns how a stack's constants become rates of a cost model.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "fabric/linear_link.hpp"
#include "hardware/stack.hpp"
#include "models/table/model_spec.hpp"
#include "plan/choose/cost.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::apps {

/// Refuses a job of which some instructions have no price on the card: other types than bf16 and fp16, and states or
/// activations in host memory or in files, by their keys; or a stack whose constants do not price the collectives of so
/// many ranks, by the constant's name.
core::result<void> check_priced_on_card(const config::job_config& job, const hardware::stack& by);

/// Returns the costs by which the instructions of a plan are priced on the card. Products take the time of
/// hardware::step_product_s() with their own sizes; attention has the stack's share of the peak; norms and activations
/// move the stack's bytes per token, of which the plan's count is a fixed share; updates, copies and sums move their
/// bytes at the card's rate. The host's time to launch a layer, as far as it is longer than the layer's, is divided
/// over the operations of the plan's largest unit. `disk`: the cost model whose rates of the disk, and whose latency of
/// messages between lanes, are kept. Requires check_priced_on_card().
plan::cost_model costs_on_card(const hardware::stack& by, const plan::rank_plan& p, const models::model_spec& spec,
                               plan::cost_model disk);

/// Returns the link of collectives among these ranks, which are ascending and lie on nodes of the card's number of GPUs
/// by their numbers. Within a node NVLink carries the bytes, else the slower of NVLink and the network of the GPUs that
/// share a node; each further rank adds the latency of a hop (hardware::ring_gather_s). A stack without that constant
/// has the latencies of an all-reduce (hardware::two_level_all_reduce_s). Requires check_priced_on_card().
fabric::linear_link link_on_card(const hardware::stack& by, const std::vector<uint32_t>& ranks);

}  // namespace troupe::apps
