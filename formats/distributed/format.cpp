#include "formats/distributed/format.hpp"

#include "formats/distributed/safetensors_shards.hpp"
#include "formats/distributed/source.hpp"
#include "formats/torch/distributed_metadata.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

namespace fs = std::filesystem;

constexpr source_format distributed_format{
    .described = "a folder of torch.distributed.checkpoint",
    .lacks = "no .metadata (torch.distributed.checkpoint)",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      const bool has_metadata = storage::is_there(folder / distributed_metadata_name) ||
                                storage::is_there(folder / accelerate_model_folder / distributed_metadata_name);
      return has_metadata || holds_safetensors_shards(folder) ? likeness::certain : likeness::none;
    },
    .has_states =
        [](const fs::path& folder) {
          const bool is_accelerates = !storage::is_there(folder / distributed_metadata_name) &&
                                      storage::is_folder(folder / accelerate_model_folder);
          return !is_accelerates || storage::is_folder(folder / accelerate_optimizer_folder) ||
                 storage::is_there(folder / "optimizer.bin");
        },
    .open = [](const fs::path& path, const source_options&) { return read_distributed_source(path); },
    .has_module_names = true,
    .has_trainer_files = true,
    .lies_below_config = true,
};

}  // namespace troupe::formats
