// Opens a checkpoint of any format. Owns how the format is recognised; each format has a reader of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"
#include "core/name_lines.hpp"

namespace troupe::checkpoint {

/// The formats of checkpoints.
enum class source_format : uint8_t { troupe, deepspeed, universal, distributed, hugging_face, torch, gguf };
/// "a checkpoint of Troupe's", ...: for messages.
std::string_view described(source_format f);

/// How to open; the defaults take what the folder itself says.
struct source_options {
  /// Which checkpoint of a folder of several; none: the one that `latest` names.
  std::optional<std::string> tag{};
  /// In a folder of our checkpoints: where the one that `latest` names is damaged, the newest before it whose every
  /// digest is right. All of it is read then.
  bool fallback_to_previous{false};
  /// Rules for name_rules.hpp, which give the tensors other names; empty: none.
  core::name_lines map{};
  std::function<void(const std::string&)> say{};  ///< called with a line for each checkpoint that was skipped
};

/// What lies at `path`, from names and first bytes alone. Errors: bad_input where nothing does or it is
/// no checkpoint, with what was looked for.
core::result<source_format> recognise(const std::filesystem::path& path, const std::optional<std::string>& tag = {});

/// One of: a checkpoint of ours or a folder of them; a DeepSpeed folder, by its `latest` or a tag's own folder; a
/// universal folder; a folder of torch.distributed.checkpoint; a Hugging Face folder; a safetensors file; a file of
/// torch.save; a GGUF file. Only what describes the tensors is read. Errors (bad_input, mismatch, io) name file or
/// folder.
core::result<tensor_source> open_source(const std::filesystem::path& path, const source_options& options = {});

}  // namespace troupe::checkpoint
