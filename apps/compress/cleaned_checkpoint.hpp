// A run's checkpoint with what it was compressed with made permanent: grids and masks in the weights, related modules
// cut, config.json changed along. Owns what is read for that; its tensors are compression/files/cleaned_source.hpp's.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/checkpoint/model_description.hpp"
#include "checkpoint/convert/trained_grid.hpp"
#include "job/compression/clean.hpp"

namespace troupe::apps {

struct cleaned_checkpoint {
  described_checkpoint now;  ///< its run and model are the cleaned ones
  std::shared_ptr<const checkpoint::tensor_source> before;
  std::shared_ptr<const job::cleaning> done;
  uint64_t elements_before = 0, elements = 0;  ///< of weights
};

/// By the configuration that the checkpoint's run was made with. Refused: a checkpoint that does not say it, that
/// compresses nothing or is clean already, and what plan_cleaning refuses.
core::result<cleaned_checkpoint> clean(described_checkpoint from);

/// The grids that weights were trained on and their values lie on now, by the tensor's name. Reads the weights as they
/// were before. Without scales where the grid is not around zero, or the weight has lost inputs and its runs other
/// elements each.
core::result<std::map<std::string, checkpoint::trained_grid>> trained_grids(const cleaned_checkpoint& c);

/// A row for each module that was changed, and the widths that config.json has now, on the standard output.
void print_cleaning(const cleaned_checkpoint& c);

}  // namespace troupe::apps
