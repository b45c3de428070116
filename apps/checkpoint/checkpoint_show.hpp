// `troupe checkpoint inspect`, `verify` and `diff`: what a checkpoint of any format holds, whether it is whole, how two
// differ. Nothing is written.
#pragma once

#include <optional>
#include <string>

#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "checkpoint/source/diff.hpp"

namespace troupe::apps {

struct diff_arguments {
  source_arguments first;
  std::string second;
  std::optional<double> tolerance;  ///< none: bits
};

struct compared_checkpoints {
  checkpoint::tensor_source first, second;
  checkpoint::diff_report report;
};

/// Opens both and compares them. A pipeline's layers without names get those of the other one.
core::result<compared_checkpoints> compare_checkpoints(const diff_arguments& a);

int inspect_checkpoint(const source_arguments& a, output_form form, const std::string& model_config = {});
/// Prints a file for `--map` instead: each tensor's name and the one that it gets by `a.map`, else in its model, which
/// `model_config` or the checkpoint describes.
int print_names(const source_arguments& a, const std::string& model_config);
int verify_checkpoint_at(const source_arguments& a);
int diff_checkpoints_at(const diff_arguments& a);

}  // namespace troupe::apps
