// Chooses how a model is split over the tensor axis: the split of its family, and the whole model in addition to a
// rank's table. Owns the choice and its refusals; models/table/tp_split.hpp computes widths, core/tp_slices.hpp
// elements.
#pragma once

#include <memory>

#include "config/sections/job_config.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "job/tensor/partition.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::job {

struct chosen_tensor {         ///< the tensor split of a job
  models::tensor_split split;  ///< split over the tensor axis; degree 1: nothing is split
  models::sequence_split sequence;
  core::tp_plan cut;                ///< splits of the parameters of `whole`
  std::vector<cut_origin> origins;  ///< [parameter of `whole`, without copies]: source of the decision on its split
  /// The unsplit model, which messages and files refer to. Its parameters have the numbers of the ranks' table; if
  /// nothing is split it is that table.
  std::shared_ptr<const core::model_table> whole;
};

/// The tables of a host's own model, split by the policy that it declares (models/host/).
struct host_tables {
  const core::model_table* whole = nullptr;  ///< the unsplit model; null: the configuration's model
  const core::model_table* local = nullptr;  ///< the model as one rank computes it; null if it is not split
  const core::tp_plan* cut = nullptr;        ///< splits of the parameters of `whole`; null if it is not split
};

/// Returns the split that the configuration requests: by its partition_config, else its preset, else the family's split
/// of attention, MLP and vocabulary. Refused (bad_input), with the key: what partition.hpp refuses, more ranks than
/// heads, inner elements or, with sharded norms, `columns` of a sample.
core::result<named_split> choose_split(const config::job_config& config, const models::model_spec& spec,
                                       const core::model_table& whole, uint64_t columns);

/// Returns the sequence group that the configuration requests, for samples of `columns` tokens. Refused (bad_input),
/// with the key: more ranks than a tensor rank has heads, or than tokens.
core::result<models::sequence_split> choose_sequence(const config::job_config& config, const models::model_spec& spec,
                                                     const models::tensor_split& tensor, uint64_t columns);

/// Refused (bad_input), with the key: more pieces than rows in the largest sum over tensor ranks in `local`, a rank's
/// table; any division into pieces if no such sum is the result of a product.
core::result<void> check_exchange_pieces(const config::job_config& config, const core::model_table& local);

}  // namespace troupe::job
