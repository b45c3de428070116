#include "formats/compressed/format.hpp"

#include "formats/compressed/foreign.hpp"
#include "formats/compressed/source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/trainer/trainer.hpp"
#include "formats/weights/hugging_face.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

/// Opens the weights of a Hugging Face folder, with decoded values if their codes can be decoded.
core::result<tensor_source> open_weights(const fs::path& at, const source_options& options) {
  TROUPE_ASSIGN(const auto config, read_model_config(storage::is_folder(at) ? at : at.parent_path()));
  if (options.as_stored && foreign_codes_of(config)) return read_codes_as_stored(at);
  TROUPE_ASSIGN(const auto is_compressed, is_compressed_folder(at));
  if (is_compressed) return read_compressed_source(at);
  return options.as_stored ? read_codes_as_stored(at) : read_hugging_face_source(at);
}

}  // namespace

constexpr source_format hugging_face_format{
    .described = "weights in safetensors files",
    .lacks = "no model.safetensors or pytorch_model.bin (Hugging Face)",
    .file_kind = "a safetensors file",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      if (storage::is_there(folder / single_file_name) || storage::is_there(folder / index_file_name))
        return likeness::certain;
      const auto index = find_weights_index(folder, index_file_name, safetensors_index_infix);
      return index ? likeness::possible : likeness::none;
    },
    .in_file =
        [](const file_start& start) {
          const bool is_header = start.byte(8) == '{';
          return is_header || start.first_shard.ends_with(".safetensors") ? likeness::possible : likeness::none;
        },
    .has_states = has_optimizer_file,
    .open = open_weights,
    .is_model_folder = true,
    .has_module_names = true,
    .has_trainer_files = true,
};

}  // namespace troupe::formats
