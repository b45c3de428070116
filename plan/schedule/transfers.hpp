// Derives pipeline tables from other tables: adds sends and receives, keeps only computations or only the forward, or
// joins the two parts of a backward. The fabric moves the data.
#pragma once

#include "plan/action.hpp"

namespace troupe::plan {

/// Returns the table of computations with SEND and RECV of each output and gradient for another rank. A send is
/// directly after the computation of its data. A receive is where the sender reaches its send if all ranks take turns,
/// one action each. All ranks therefore have the transfers between two of them in one order, and no cycle of waits
/// exists. Source: PyTorch's _add_send_recv; same result. The table must have no transfers, and no fault that
/// find_fault() finds.
pipeline_table with_transfers(const pipeline_table& t);

/// Returns the table without sends, receives, UNSHARD, RESHARD and REDUCE_GRAD, which a plan places itself.
pipeline_table computations_of(pipeline_table t);

/// Returns the forward of `micro_batches` micro-batches through the stages of a table, on their ranks; this is the
/// table of steps that do not train. Groups of as many micro-batches as ranks pass through stage after stage.
pipeline_table forward_through(const pipeline_table& t, uint32_t micro_batches);

/// Returns the table with a whole backward (B) in place of each input part (I) that its weight part (W) directly
/// follows: then there is one recomputation, and the products of both parts are computed together. Source: PyTorch's
/// _merge_bw. If a send is between I and W, they remain separate.
pipeline_table with_whole_backwards(pipeline_table t);

}  // namespace troupe::plan
