// Places the ranks of a job on the devices of a network, axis by axis: the ranks of the first axes are the nearest.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "core/mesh.hpp"
#include "sim/network/network.hpp"

namespace troupe::sim {

/// Axes in the order of their ranks' distances, the nearest first. An order contains each axis once.
using axis_order = std::array<core::axis, core::num_axes>;

/// The order in which the ranks of a job are numbered: tensor, context, sequence, shard, replicate, pipeline.
inline constexpr axis_order nearest_first = {core::axis::tensor, core::axis::context,   core::axis::sequence,
                                             core::axis::shard,  core::axis::replicate, core::axis::pipeline};

/// Returns the device of each rank: the coordinate on the first axis changes fastest from device to device, in the
/// order of the network's file. Devices beyond the number of ranks stay free. Errors (bad_input): more ranks than
/// devices, an order that lacks an axis.
core::result<std::vector<uint32_t>> place_ranks(const core::mesh& ranks, const network& on,
                                                const axis_order& order = nearest_first);

}  // namespace troupe::sim
