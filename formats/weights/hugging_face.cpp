#include "formats/weights/hugging_face.hpp"

#include <fmt/format.h>

#include <map>

#include "formats/safetensors/weights_folder.hpp"

namespace troupe::formats {
namespace fs = std::filesystem;

core::result<std::string> read_model_config(const fs::path& folder) {
  std::error_code ec;
  // Folders in the cache of Hugging Face's hub contain symbolic links instead of files.
  const fs::path path = fs::canonical(folder / model_config_file_name, ec);
  if (ec) return std::string();
  return storage::read_small_file(storage::real_files(), path, max_model_config_bytes);
}

core::result<stored_tensors> read_stored_tensors(const fs::path& path, std::string config) {
  TROUPE_ASSIGN(const auto weights, weights_folder::open(path));
  std::error_code ec;
  stored_tensors stored;
  auto& out = stored.source;
  out.format = "Hugging Face";
  out.folder = fs::is_directory(path, ec) ? path : path.parent_path();
  std::map<const safetensors_file*, uint32_t> number;
  for (const auto& t : weights.tensors()) {
    if (!t.entry->unread_type.empty()) {
      out.unread.push_back({t.entry->name, t.entry->unread_type});
      continue;
    }
    const auto [at, fresh] = number.try_emplace(t.file, static_cast<uint32_t>(out.files.size()));
    if (fresh) {
      const fs::path real = fs::canonical(t.file->path(), ec);
      out.files.push_back({ec ? t.file->path() : real, t.file->file_bytes()});
    }
    tensor_entry entry{t.entry->name, tensor_kind::weight, {}, t.entry->type, t.entry->shape, {}};
    if (const uint64_t count = (t.entry->end - t.entry->begin) / core::size_of(t.entry->type); count > 0)
      entry.pieces.push_back({at->second, 0, count, t.file->offset_bytes(*t.entry), {}});
    if (t.entry->is_e4m3) stored.in_e4m3.insert(t.entry->name);
    out.tensors.push_back(std::move(entry));
  }
  if (out.files.empty() && !fs::is_directory(path, ec)) out.files.push_back({path, fs::file_size(path, ec)});
  out.run.model = std::move(config);
  TROUPE_TRY(complete(out));
  return stored;
}

core::result<tensor_source> plain_source(stored_tensors stored, const fs::path& path, bool as_stored) {
  for (const auto& name : stored.in_e4m3)
    if (!as_stored && (name == "weight" || name.ends_with(".weight")))
      return fail(core::error_kind::bad_input,
                  fmt::format("'{}': tensor '{}' has 8-bit floating-point numbers (F8_E4M3), but their scales are "
                              "unknown: wanted a config.json with a quantization_config in the same folder",
                              path.string(), shown(name)));
  auto& out = stored.source;
  std::erase_if(out.tensors, [&](const tensor_entry& t) { return stored.in_e4m3.contains(t.name); });
  for (const auto& name : stored.in_e4m3) out.unread.push_back({name, "F8_E4M3"});
  say_unread(out.remarks, out.unread);
  return std::move(out);
}

}  // namespace troupe::formats
