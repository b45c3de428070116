// A checkpoint of a run that compressed, with that made permanent: grids and masks in the weights, related modules cut,
// states along. Owns where masks and scores are read; the choice is job/compression/clean.hpp's, tensors are changed by
// checkpoint/convert/cut_source.hpp. No Torch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "job/compression/clean.hpp"

namespace troupe::compression {

struct cleaned_source {  ///< a checkpoint that is worked out of another when it is read
  checkpoint::tensor_source now;
  std::shared_ptr<const checkpoint::tensor_source> before;
  std::shared_ptr<const job::cleaning> done;
  uint64_t elements_before = 0, elements = 0;  ///< of weights
};

/// `from` as `config`, the configuration of its run, has compressed it after the updates that it says; `table`: the
/// model's, without scores of masks. Refused: one of which nothing was compressed yet, and what plan_cleaning refuses.
core::result<cleaned_source> clean_source(checkpoint::tensor_source from, const config::job_config& config,
                                          core::model_table table, job::widths_said said);

/// A parameter's master weights, or those of a frozen one. Errors: mismatch where `from` has none of that name; io.
core::result<std::vector<float>> whole_weight(const checkpoint::tensor_source& from, const std::string& name);

}  // namespace troupe::compression
