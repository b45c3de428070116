// The files of a DeepSpeed checkpoint by what their names say: ranks, layers, which tag `latest` means. Owns the rules
// of names; nothing is opened but `latest`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Files of one folder.
inline constexpr size_t max_deepspeed_files = 1 << 16;
/// Bytes of a tag's name in `latest`.
inline constexpr size_t max_deepspeed_tag_bytes = 255;

struct deepspeed_file {
  std::filesystem::path path;
  uint32_t dp = 0;     ///< data-parallel rank; 0 where the name has none
  uint32_t mp = 0;     ///< model-parallel rank: of a layer's file the tensor-parallel one
  uint32_t layer = 0;  ///< of a layer's file
};

struct deepspeed_files {
  std::filesystem::path folder;           ///< of the tag
  std::vector<deepspeed_file> model;      ///< `*_model_states.pt`, ascending by (mp, dp)
  std::vector<deepspeed_file> optimizer;  ///< `*optim_states.pt`, fp16 and bf16 names, with and without the underscore
  std::vector<deepspeed_file> layers;     ///< `layer_*` of a pipeline, ascending by (layer, mp)
  bool has_offloaded = false;             ///< the folder `offloaded_tensors` is there
};

/// The name that a file such as `latest` holds: its first line, without what people's hands and scripts leave around
/// it: blanks, a carriage return, `./` in front, slashes behind.
std::string tag_from(std::string_view text);

/// `path` itself, where it holds no `latest`; a `tag` is looked for below `path`. `latest_file` is the name of the text
/// file that holds the tag.
core::result<std::filesystem::path> tag_folder(const std::filesystem::path& path, std::optional<std::string> tag,
                                               const char* latest_file = "latest");

/// Under which names a rank's model file may lie. A universal folder has it under the name of stage 3 too, so that
/// every stage loads it; the other one is listed then.
enum class model_file_names : uint8_t { one, both };

/// Refused with the file: experts' files, two files of one rank, ranks that are missing. A folder without any model
/// file is no checkpoint of DeepSpeed's.
core::result<deepspeed_files> list_deepspeed_files(const std::filesystem::path& folder,
                                                   model_file_names names = model_file_names::one);

}  // namespace troupe::checkpoint
