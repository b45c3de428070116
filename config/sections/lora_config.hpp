// The `lora` section: low-rank adapters of linear layers, which are trained while other parameters stay as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::config {

struct lora_section {  ///< configuration section `lora`
  bool given = false;  ///< true: the section was given, so the model has adapters
  uint64_t r = 8;      ///< rank of the adapters
  double alpha = 8;    ///< numerator of the adapters' factor
  double dropout = 0;  ///< probability with which an element of an adapter's input is dropped
  /// Names of linear layers, or their last parts, or `all-linear`.
  std::vector<std::string> targets;
  bool rslora = false;  ///< true: the factor is alpha / sqrt(r); false: alpha / r
  /// Names of layers, or their last parts, whose own parameters are trained, too.
  std::vector<std::string> modules_to_save;
  std::string init = "kaiming";  ///< distribution from which the first matrix of an adapter is drawn
  std::filesystem::path from;    ///< PEFT folder with which the adapters begin, absolute; empty: none
  /// True: the key was given; else the adapter of `from` determines its value.
  bool r_given = false, alpha_given = false, rslora_given = false;
};

}  // namespace troupe::config
