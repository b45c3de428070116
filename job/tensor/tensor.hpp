// Chooses how a model is split over the tensor axis. The result has the split and the unsplit model, in addition to the
// table that one rank computes. Owns the choice of the split and its refusals; models/table/tp_split.hpp computes
// widths, core/tp_slices.hpp maps elements.
#pragma once

#include <memory>

#include "config/sections/job_config.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "job/tensor/partition.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::job {

struct chosen_tensor {         ///< how a job's model is split over tensor and sequence ranks
  models::tensor_split split;  ///< split of the model over the tensor axis; degree 1: nothing is split
  models::sequence_split sequence;
  core::tp_plan cut;                ///< splits of the parameters of `whole`
  /// [parameter of `whole`, without the copies of tied parameters]: what decided whether it is split.
  std::vector<cut_origin> origins;
  /// The table of the unsplit model, for messages and files. Its parameters have the same indices as in the table of a
  /// rank; if nothing is split, both are the same table.
  std::shared_ptr<const core::model_table> whole;
};

/// The tables of a host's own model, split by the policy that it declares (models/host/).
struct host_tables {
  /// Table of the host's unsplit model; null: the job has the configuration's model instead.
  const core::model_table* whole = nullptr;
  const core::model_table* local = nullptr;  ///< the model as one rank computes it; null if the model is not split
  /// Splits of the parameters of `whole` over tensor ranks; null if the model is not split.
  const core::tp_plan* cut = nullptr;
};

/// Returns the split that the configuration requests: by its partition_config, else its preset, else the family's split
/// of attention, MLP and vocabulary. Refused (bad_input), with the key: what split_of() in partition.hpp refuses; more
/// tensor ranks than heads, than inner elements of an MLP, or, with sharded norms, than `columns` of a sample.
core::result<named_split> choose_split(const config::job_config& config, const models::model_spec& spec,
                                       const core::model_table& whole, uint64_t columns);

/// Returns how the configuration splits samples of `columns` tokens over the ranks of a sequence group. Refused
/// (bad_input), with the key: more ranks than a tensor rank has heads, or than tokens.
core::result<models::sequence_split> choose_sequence(const config::job_config& config, const models::model_spec& spec,
                                                     const models::tensor_split& tensor, uint64_t columns);

/// Checks the key tensor_parallel.exchange_pieces for `local`, the table of one rank. Refused (bad_input), with the
/// key: more pieces than the largest sum over tensor ranks has rows; more than one piece if no such sum is the result
/// of a product.
core::result<void> check_exchange_pieces(const config::job_config& config, const core::model_table& local);

}  // namespace troupe::job
