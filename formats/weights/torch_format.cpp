#include "formats/weights/torch_format.hpp"

#include "formats/safetensors/weights_index.hpp"
#include "formats/trainer/trainer.hpp"
#include "formats/weights/torch.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

namespace fs = std::filesystem;

constexpr source_format torch_format{
    .described = "weights in files of torch.save",
    .file_kind = "a torch.save file",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      for (const auto name : {torch_file_name, torch_index_file_name, full_fsdp_file_name})
        if (storage::is_there(folder / name)) return likeness::certain;
      const auto index = find_weights_index(folder, torch_index_file_name, torch_index_infix);
      return index ? likeness::possible : likeness::none;
    },
    .in_file =
        [](const file_start& start) {
          // An index may list files of any name: those that are not safetensors are files of torch.save.
          const bool is_listed = !start.first_shard.empty();
          const bool is_zip = start.byte(0) == 'P' && start.byte(1) == 'K', is_pickle = start.byte(0) == 0x80;
          return is_listed || is_zip || is_pickle ? likeness::possible : likeness::none;
        },
    .has_states = has_optimizer_file,
    .open = [](const fs::path& path, const source_options&) { return read_torch_source(path); },
    .is_model_folder = true,
    .has_module_names = true,
    .has_trainer_files = true,
    .lies_below_config = true,
};

}  // namespace troupe::formats
