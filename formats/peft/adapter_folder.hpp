// Reads and writes folders of PEFT with a LoRA adapter: adapter_config.json and adapter_model.safetensors. Owns the
// options that Troupe computes with, and refuses all others by name. Leaves the layers of the base model to the caller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/writer.hpp"

namespace troupe::formats {

/// Beginning of the names of all tensors in an adapter's file; the name of the base model's module follows.
inline constexpr std::string_view adapter_name_begin = "base_model.model.";
/// Ends of the names of an adapter's matrices A (rank, in) and B (out, rank), after the name of their layer.
inline constexpr std::string_view adapter_a_end = ".lora_A.weight", adapter_b_end = ".lora_B.weight";
inline constexpr std::string_view adapter_file_name = "adapter_model.safetensors";

/// Limit of an adapter_config.json in bytes.
inline constexpr uint64_t max_adapter_config_bytes = uint64_t{1} << 20;

struct adapter_options {  ///< options of an adapter, as adapter_config.json has them
  uint64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool by_root = false;    ///< `use_rslora`; true: the factor is alpha / sqrt(rank); false: alpha / rank
  bool is_normal = false;  ///< `init_lora_weights`; true: "gaussian"
  /// `fan_in_fan_out`; true: the base's weights are (in, out), as those of GPT-2.
  bool is_in_out = false;
  std::string base;  ///< `base_model_name_or_path`; empty: null
  std::string task;  ///< `task_type`; empty: null
  std::vector<std::string> targets, modules_to_save;

  /// Returns the factor of the product of both matrices.
  [[nodiscard]] double scale() const;
};

/// One layer of an adapter: the entries of its two matrices.
struct adapter_layer {
  std::string name;  ///< name of the layer in the base model
  const safetensors_entry *a = nullptr, *b = nullptr;
};

/// A parameter of the base model that the adapter replaces as a whole (`modules_to_save`).
struct adapter_parameter {
  std::string name;  ///< name of the parameter in the base model
  const safetensors_entry* value = nullptr;
};

/// An open adapter. Not copyable, because layers and parameters refer to the file's entries; any number of threads may
/// read.
class peft_adapter {
 public:
  /// Opens the adapter in `folder`. Refused, with file and key or tensor: another kind of adapter, options that Troupe
  /// does not compute with (DoRA, biases, ranks of single layers ...), options of unknown names that are not off,
  /// a file of torch.save, a layer with only one of its two matrices, matrices whose rank differs from the options'.
  static core::result<std::unique_ptr<peft_adapter>> open(const std::filesystem::path& folder);
  peft_adapter(const peft_adapter&) = delete;
  peft_adapter& operator=(const peft_adapter&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const adapter_options& options() const { return options_; }
  [[nodiscard]] const safetensors_file& file() const { return file_; }
  /// Return the layers, and the parameters of `modules_to_save`, ascending by name.
  [[nodiscard]] const std::vector<adapter_layer>& layers() const { return layers_; }
  [[nodiscard]] const std::vector<adapter_parameter>& parameters() const { return parameters_; }

  /// Returns the entry of the tensor that has this name without adapter_name_begin; null if there is none.
  [[nodiscard]] const safetensors_entry* find(std::string_view name) const;
  /// Reads elements [first, first + out.size()) of an entry as fp32, rounded once. Errors: io, and numeric for a value
  /// that fp32 cannot hold.
  [[nodiscard]] core::result<void> read(const safetensors_entry& entry, uint64_t first, std::span<float> out) const;

 private:
  peft_adapter(std::filesystem::path folder, adapter_options options, safetensors_file file);
  core::result<void> list_tensors();

  std::filesystem::path folder_;
  adapter_options options_;
  safetensors_file file_;
  std::vector<adapter_layer> layers_;
  std::vector<adapter_parameter> parameters_;
};

/// Reads the text of an adapter_config.json; `place` names it in errors. Refuses the options that peft_adapter::open()
/// refuses.
core::result<adapter_options> parse_adapter_options(const std::string& text, const std::string& place);

/// Writes an adapter into `folder`, which is created if it is missing: the weights first, then adapter_config.json, so
/// that a failed write leaves no folder that looks complete. `tensors` have the names of the base model's modules,
/// without adapter_name_begin.
core::result<void> write_adapter(const std::filesystem::path& folder, const adapter_options& options,
                                 std::vector<tensor_to_write> tensors);

}  // namespace troupe::formats
