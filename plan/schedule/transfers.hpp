// Passes over a proved table of a pipeline: sends and receives, computations alone, forward alone, and backwards whose
// parts are neighbours. Own where these come; what moves them is the fabric's.
#pragma once

#include "plan/action.hpp"

namespace troupe::plan {

/// The table of computations with SEND and RECV of each output and gradient for another rank: a send stands behind what
/// it sends, a receive where the sender comes to it when all ranks take turns, one action each. So all ranks have the
/// transfers between two of them in one order, and none waits in a circle. Source: PyTorch's _add_send_recv; same
/// result. The table is proved and has no transfers.
pipeline_table with_transfers(const pipeline_table& t);

/// The table without sends, receives, UNSHARD, RESHARD and REDUCE_GRAD: a plan places these itself.
pipeline_table computations_of(pipeline_table t);

/// Forward of `micro_batches` micro-batches through the stages of a table, where they lie: what steps do that do not
/// train. Groups of as many micro-batches as ranks, in each stage after stage.
pipeline_table forward_through(const pipeline_table& t, uint32_t micro_batches);

/// The table with B for each I whose W stands right behind it: one recomputation, products at once. Source: PyTorch's
/// _merge_bw. Where a send stands between the two, they stay apart.
pipeline_table with_whole_backwards(pipeline_table t);

}  // namespace troupe::plan
