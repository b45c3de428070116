#include "apps/checkpoint/companions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>
#include <vector>

#include "apps/checkpoint/model_description.hpp"
#include "core/json_text.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "data/tokenizers/files/made_files.hpp"
#include "models/table/model_folder.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 13> tokenizer_files{"tokenizer.json",
                                                      "tokenizer_config.json",
                                                      "tokenizer.model",
                                                      "special_tokens_map.json",
                                                      "added_tokens.json",
                                                      "vocab.json",
                                                      "merges.txt",
                                                      "chat_template.jinja",
                                                      "chat_template.json",
                                                      "vocab.txt",
                                                      "spiece.model",
                                                      "tekken.json",
                                                      "sentencepiece.bpe.model"};
constexpr const char* generation_file = "generation_config.json";
constexpr const char* more_templates = "additional_chat_templates";
constexpr uint64_t max_companion_bytes = uint64_t{256} << 20;

/// Copies one file; returns false if it does not exist. A link without target is an error.
core::result<bool> copy_companion(const fs::path& from, const fs::path& to) {
  std::error_code e;
  const auto status = fs::symlink_status(from, e);
  if (status.type() == fs::file_type::not_found || e == std::errc::filename_too_long) return false;
  // Follows links, because caches of the Hugging Face hub consist of links
  const auto path = e ? fs::path() : fs::canonical(from, e);
  if (e) return core::fail(core::path_error(fs::is_symlink(status) ? "follow the link" : "read", from, e.value()));
  if (!fs::is_regular_file(path, e)) return false;
  TROUPE_ASSIGN(const auto text, storage::read_small_file(storage::real_files(), path, max_companion_bytes));
  TROUPE_TRY(storage::write_file_atomically(to, text));
  return true;
}

/// True if `name` is one of the names, other than `tokenizer_files`, that tokenizers give their vocabulary.
bool is_vocabulary(std::string_view name) {
  return name.ends_with(".tiktoken") || name.starts_with("tokenizer.model.v");
}

/// Returns the names of the tokenizer's files that the folder `place` may have; none if there is no such folder.
std::vector<std::string> tokenizer_names(const fs::path& place) {
  std::vector<std::string> out;
  std::error_code e;
  if (place.empty() || fs::symlink_status(place, e).type() == fs::file_type::not_found) return out;
  out.assign(tokenizer_files.begin(), tokenizer_files.end());
  // A folder that cannot be listed is reported by the copy of the first name.
  for (fs::directory_iterator at(place, e); !e && at != fs::directory_iterator(); at.increment(e))
    if (auto name = at->path().filename().string(); is_vocabulary(name)) out.push_back(std::move(name));
  return out;
}

/// Copies the tokenizer's files from the first folder of `places` that has one of them, so that files of two tokenizers
/// are never mixed. A GGUF file among the places is read as a folder; if its vocabulary cannot be written, `reason`
/// gets the cause, and the places after it are searched. Returns that folder or file; an empty path if there is none.
core::result<fs::path> copy_tokenizer(std::span<const fs::path> places, const fs::path& to, std::string& reason) {
  for (const auto& place : places) {
    bool any = false;
    if (data::is_gguf_with_words(place)) {
      const auto made = data::made_files(place);
      if (!made) {
        reason = made.error().text;
        continue;
      }
      for (const auto& file : *made)
        if (file.name != generation_file) TROUPE_TRY(storage::write_file_atomically(to / file.name, file.text));
      return place;
    }
    for (const auto& name : tokenizer_names(place)) {
      TROUPE_ASSIGN(const auto copied, copy_companion(place / name, to / name));
      any = any || copied;
    }
    if (any) return place;
  }
  return fs::path();
}

core::result<void> copy_templates(const fs::path& from, const fs::path& to) {
  std::error_code e;
  const auto unreadable = [&] {
    return core::fail(core::path_error("read the folder", from / more_templates, e.value()));
  };
  if (fs::symlink_status(from / more_templates, e).type() == fs::file_type::not_found) return {};
  fs::directory_iterator at(from / more_templates, e);
  if (e) return unreadable();
  for (; at != fs::directory_iterator(); at.increment(e)) {
    if (at->path().extension() != ".jinja") continue;
    std::error_code made;
    fs::create_directories(to / more_templates, made);
    if (made) return core::fail(core::path_error("make the folder", to / more_templates, made.value()));
    TROUPE_TRY(copy_companion(at->path(), to / more_templates / at->path().filename()));
  }
  if (e) return unreadable();
  return {};
}

core::result<void> copy_generation(std::span<const fs::path> places, const fs::path& to) {
  for (const auto& place : places) {
    if (place.empty()) continue;
    if (data::is_gguf_with_words(place)) {
      const auto made = data::made_files(place);
      if (!made) continue;
      const auto file = std::ranges::find(*made, generation_file, &data::made_file::name);
      if (file == made->end()) continue;
      return storage::write_file_atomically(to / generation_file, file->text);
    }
    TROUPE_ASSIGN(const auto copied, copy_companion(place / generation_file, to / generation_file));
    if (copied) return {};
  }
  return {};
}

/// Returns the value of `auto_map` in a JSON text; null if the text has no such key.
nlohmann::json auto_map_in(const std::string& text) {
  const auto parsed = core::parse_json(text);
  return parsed && parsed->is_object() ? parsed->value("auto_map", nlohmann::json()) : nlohmann::json();
}
/// Returns the value of `auto_map` in a JSON file; null if the file does not exist or has no such key.
nlohmann::json auto_map_of(const fs::path& file) {
  const auto text = storage::read_small_file(storage::real_files(), file, max_companion_bytes);
  return text ? auto_map_in(*text) : nlohmann::json();
}

/// Returns the folder of `places` that has the modules of `auto_map`: the first one whose config.json names the same
/// modules. Empty if there is none.
fs::path place_of_modules(const nlohmann::json& auto_map, std::span<const fs::path> places) {
  for (const auto& place : places)
    if (!place.empty() && auto_map_of(place / "config.json") == auto_map) return place;
  return {};
}

/// True if `module` can be the name of a module's file in the folder itself.
bool is_module(std::string_view module) {
  return !module.empty() &&
         std::ranges::all_of(module, [](char c) { return core::is_ascii_word(c) || c == '_' || c == '-'; });
}

/// Copies the Python modules of a model or a tokenizer, with the modules that they import from their own folder.
class module_copier {
 public:
  explicit module_copier(const fs::path& to) : to_(to) {}

  /// Copies the modules that `auto_map` names from the folder `from`.
  core::result<void> copy(const nlohmann::json& auto_map, const fs::path& from) {
    if (auto_map.is_structured()) {
      for (const auto& one : auto_map) TROUPE_TRY(copy(one, from));
      return {};
    }
    if (!auto_map.is_string()) return {};
    auto name = auto_map.get<std::string>();
    // A name "REPOSITORY--CLASS" means a class of another repository. Its module is copied if it is here; else
    // transformers fetches it.
    const auto dashes = name.find("--");
    if (dashes != std::string::npos) name.erase(0, dashes + 2);
    const auto module = name.substr(0, name.find('.'));
    if (is_module(module)) return copy_module(module, from, dashes == std::string::npos);
    missing_.push_back(fmt::format("'{}'", core::shown(name)));
    return {};
  }

  [[nodiscard]] std::string missing() const {
    if (missing_.empty()) return {};
    return fmt::format(
        "auto_map needs Python files that are not next to the weights: {}: the written folder does not "
        "open without them; copy them into it",
        fmt::join(missing_, ", "));
  }

 private:
  core::result<void> copy_module(const std::string& module, const fs::path& from, bool is_needed) {
    const auto file = module + ".py";
    if (!seen_.insert(file).second) return {};
    TROUPE_ASSIGN(const auto copied,
                  from.empty() ? core::result<bool>(false) : copy_companion(from / file, to_ / file));
    if (!copied) {
      if (is_needed)
        missing_.push_back(file);
      else
        seen_.erase(file);
      return {};
    }
    TROUPE_ASSIGN(const auto text, storage::read_small_file(storage::real_files(), to_ / file, max_companion_bytes));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      // The forms that transformers follows: `from .module import name` and `import .module`
      std::istringstream words(line);
      std::string first, second;
      if (words >> first >> second && (first == "from" || first == "import") && second.starts_with('.') &&
          is_module(second.substr(1)))
        TROUPE_TRY(copy_module(second.substr(1), from, true));
    }
    return {};
  }

  const fs::path& to_;
  std::set<std::string> seen_;
  std::vector<std::string> missing_;
};

core::result<std::string> copy_all(std::span<const fs::path> places, const nlohmann::json& auto_map,
                                   const fs::path& to) {
  std::string reason;
  TROUPE_ASSIGN(const auto tokenizer, copy_tokenizer(places, to, reason));
  if (!tokenizer.empty()) TROUPE_TRY(copy_templates(tokenizer, to));
  TROUPE_TRY(copy_generation(places, to));
  module_copier modules(to);
  if (!auto_map.is_null()) TROUPE_TRY(modules.copy(auto_map, place_of_modules(auto_map, places)));
  if (!tokenizer.empty()) TROUPE_TRY(modules.copy(auto_map_of(tokenizer / "tokenizer_config.json"), tokenizer));
  auto missing = modules.missing();
  if (!tokenizer.empty() || reason.empty()) return missing;
  return fmt::format("no tokenizer is written: {}{}{}", reason, missing.empty() ? "" : "; ", missing);
}

/// Appends to `to` the folders in which the run's configuration names a tokenizer and a model; for a GGUF file with a
/// vocabulary, that file.
void add_places(const config::job_config& run, std::vector<fs::path>& to) {
  const auto& tokenizer = run.data.tokenizer_path;
  if (!tokenizer.empty()) to.push_back(data::is_gguf_with_words(tokenizer) ? tokenizer : models::folder_of(tokenizer));
  if (!run.model.path.empty()) to.push_back(models::folder_of(run.model.path));
}

}  // namespace

core::result<std::string> copy_companions(const formats::tensor_source& from, const std::string& config,
                                          const fs::path& to) {
  std::vector<fs::path> places;
  if (!from.files.empty() && data::is_gguf_with_words(from.files.front().path))
    places.push_back(from.files.front().path);
  places.push_back(models::folder_of(from.folder));
  if (const auto run = own_configuration(from)) add_places(*run, places);
  if (!from.run.model.empty() && !from.run.model.starts_with('{')) places.emplace_back(from.run.model);
  return copy_all(places, auto_map_in(config), to);
}

core::result<std::string> copy_companions(const config::job_config& run, const fs::path& to) {
  std::vector<fs::path> places;
  add_places(run, places);
  return copy_all(places, auto_map_of(to / "config.json"), to);
}

}  // namespace troupe::apps
