#include "checkpoint/source/hugging_face.hpp"

#include <map>

#include "checkpoint/safetensors/weights_folder.hpp"

namespace troupe::checkpoint {
namespace fs = std::filesystem;
using core::fail;

core::result<std::string> read_model_config(const fs::path& folder) {
  std::error_code ec;
  // Caches of the hub keep links to their files.
  const fs::path path = fs::canonical(folder / model_config_file_name, ec);
  if (ec) return std::string();
  return read_small_file(real_files(), path, max_model_config_bytes);
}

core::result<tensor_source> read_hugging_face_source(const fs::path& path) {
  const auto weights = weights_folder::open(path);
  if (!weights) return fail(weights.error());
  std::error_code ec;
  tensor_source out;
  out.format = "Hugging Face";
  out.folder = fs::is_directory(path, ec) ? path : path.parent_path();
  std::map<const safetensors_file*, uint32_t> number;
  for (const auto& t : weights->tensors()) {
    const auto [at, fresh] = number.try_emplace(t.file, static_cast<uint32_t>(out.files.size()));
    if (fresh) {
      const fs::path real = fs::canonical(t.file->path(), ec);
      out.files.push_back({ec ? t.file->path() : real, t.file->file_bytes()});
    }
    tensor_entry entry{t.entry->name, tensor_kind::weight, {}, t.entry->type, t.entry->shape, {}};
    if (const uint64_t count = (t.entry->end - t.entry->begin) / core::size_of(t.entry->type); count > 0)
      entry.pieces.push_back({at->second, 0, count, t.file->offset_bytes(*t.entry), {}});
    out.tensors.push_back(std::move(entry));
  }
  auto model = read_model_config(out.folder);
  if (!model) return fail(model.error());
  out.run.model = std::move(*model);
  if (auto ok = complete(out); !ok) return fail(ok.error());
  return out;
}

}  // namespace troupe::checkpoint
