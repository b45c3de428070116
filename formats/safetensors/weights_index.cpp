// Reads the index of a sharded folder as JSON events; values outside of weight_map are skipped without being built.
#include "formats/safetensors/weights_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "formats/safetensors/header.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

class index_events : public nlohmann::json_sax<nlohmann::json> {
 public:
  weight_map out;
  std::string problem;
  bool weights_seen = false;

  bool start_object(size_t) override {
    if (expects_file()) return wrong_file();
    if (depth_ == 1 && next_is_weights_) in_weights_ = true;
    return deeper();
  }
  bool end_object() override {
    if (--depth_ == 1) in_weights_ = false;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) {
      if (std::find(top_keys_.begin(), top_keys_.end(), name) != top_keys_.end())
        return wrong(fmt::format("the key '{}' appears twice", shown(name)));
      if (top_keys_.size() == max_top_keys) return wrong(fmt::format("it has more than {} keys", max_top_keys));
      next_is_weights_ = name == "weight_map";
      weights_seen = weights_seen || next_is_weights_;
      top_keys_.push_back(name);
    } else if (in_weights_) {
      out.emplace_back(std::move(name), std::string());
    }
    return true;
  }
  bool string(std::string& value) override {
    if (!expects_file()) return scalar();
    out.back().second = std::move(value);
    return true;
  }
  bool start_array(size_t) override {
    if (!scalar()) return false;
    return deeper();
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(int64_t) override { return scalar(); }
  bool number_unsigned(uint64_t) override { return scalar(); }
  bool number_float(double, const std::string&) override { return scalar(); }
  bool binary(nlohmann::json::binary_t&) override { return scalar(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return wrong(fmt::format("its JSON is broken at byte {}", position));
  }

 private:
  static constexpr size_t max_top_keys = 64;

  [[nodiscard]] bool expects_file() const { return in_weights_ && depth_ == 2; }

  bool wrong(std::string text) {
    problem = std::move(text);
    return false;
  }
  bool wrong_file() { return wrong(fmt::format("tensor '{}': a file's name was wanted", shown(out.back().first))); }

  /// Accepts a value that is not an object. Returns false, with `problem` set, where an object or a file is required.
  bool scalar() {
    if (depth_ == 0) return wrong("an object was wanted");
    if (expects_file()) return wrong_file();
    if (depth_ == 1 && next_is_weights_) return wrong("its weight_map must be an object");
    return true;
  }
  bool deeper() {
    if (++depth_ > max_index_depth) return wrong(fmt::format("it nests deeper than {}", max_index_depth));
    return true;
  }

  size_t depth_ = 0;
  bool next_is_weights_ = false;
  bool in_weights_ = false;
  std::vector<std::string> top_keys_;
};

/// True if the path stays below the folder to which it is joined, as far as its text shows.
bool leads_down(const std::string& file) {
  const fs::path path(file);
  if (file.empty() || path.is_absolute() || !path.has_filename()) return false;
  return std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

core::result<weight_map> parse_weights_index(std::string_view text) {
  if (text.size() > max_index_bytes)
    return fail(error_kind::limit,
                fmt::format("it has {} bytes, at most {} are allowed", text.size(), max_index_bytes));
  if (text.find('\0') != std::string_view::npos) return fail(error_kind::bad_input, "it is not JSON text");
  index_events events;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &events))
    return fail(error_kind::bad_input, std::move(events.problem));
  if (!events.weights_seen) return fail(error_kind::bad_input, "it has no weight_map");
  std::sort(events.out.begin(), events.out.end());
  for (size_t i = 0; i < events.out.size(); ++i) {
    const auto& [tensor, file] = events.out[i];
    if (i > 0 && events.out[i - 1].first == tensor)
      return fail(error_kind::bad_input, fmt::format("tensor '{}' appears twice", shown(tensor)));
    if (!leads_down(file) || file.find('\0') != std::string::npos)
      return fail(error_kind::bad_input, fmt::format("tensor '{}' is listed in '{}', which is not a file of its folder",
                                                     shown(tensor), shown(file)));
  }
  return std::move(events.out);
}

core::result<weight_map> read_weights_index(const fs::path& path) {
  TROUPE_ASSIGN(const auto text, core::read_file(path, max_index_bytes));
  if (core::begins_like_lfs_pointer(text)) return fail(core::lfs_pointer_error(path.string(), text));
  auto map = parse_weights_index(text);
  if (!map) return fail(map.error().in(fmt::format("'{}'", path.string())));
  if (map->empty()) return fail(error_kind::bad_input, fmt::format("'{}' does not list any tensors", path.string()));
  return map;
}

core::result<fs::path> indexed_file(const fs::path& folder, const std::string& file) {
  std::error_code ec;
  const fs::path root = fs::canonical(folder.empty() ? fs::path(".") : folder, ec);
  const fs::path path = ec ? fs::path() : fs::canonical(folder / file, ec);
  if (ec)
    return fail(error_kind::bad_input, fmt::format("cannot read '{}', which the index names: {}",
                                                   (folder / shown(file)).string(), ec.message()));
  // In the cache of Hugging Face's hub, MODEL/snapshots/REVISION/file is a link to MODEL/blobs/digest.
  const bool cached =
      root.parent_path().filename() == "snapshots" && path.parent_path() == root.parent_path().parent_path() / "blobs";
  if (is_below(path, root) || cached) return path;
  return fail(error_kind::bad_input, fmt::format("the index names '{}', a link that leads out of the folder '{}'",
                                                 shown(file), folder.string()));
}

std::vector<fs::path> weights_indices(const fs::path& folder, std::string_view infix) {
  std::vector<fs::path> out;
  const auto is_wanted = [&](std::string_view name) {
    return name.find(infix) != name.npos && name.ends_with(".json");
  };
  for (const auto& name : storage::names_in(folder, is_wanted)) out.push_back(folder / name);
  return out;
}

std::optional<fs::path> find_weights_index(const fs::path& folder, std::string_view usual, std::string_view infix) {
  std::error_code ec;
  if (fs::exists(folder / usual, ec)) return folder / usual;
  const auto all = weights_indices(folder, infix);
  return all.size() == 1 ? std::optional(all.front()) : std::nullopt;
}

bool is_index_name(const fs::path& file) {
  const auto name = file.filename().string();
  return name.ends_with(".json") &&
         (name.find(safetensors_index_infix) != name.npos || name.find(torch_index_infix) != name.npos);
}

core::result<storage::atomic_file> write_weights_index(const fs::path& path, const weight_map& weights,
                                                       uint64_t total_bytes) {
  std::string text;
  try {
    nlohmann::json index{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", nlohmann::json::object()}};
    for (const auto& [tensor, file] : weights) index["weight_map"][tensor] = file;
    text = index.dump(2) + "\n";
  } catch (const nlohmann::json::exception&) {
    return fail(error_kind::bad_input, "a tensor's name is not UTF-8 text");
  }
  auto out = storage::atomic_file::create(path);
  if (!out) return out;
  TROUPE_TRY(out->write(text));
  TROUPE_TRY(out->sync());
  return out;
}

}  // namespace troupe::formats
