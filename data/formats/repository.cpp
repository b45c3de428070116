#include "data/formats/repository.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string_view>

#include "core/text.hpp"
#include "data/formats/card.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

enum class split : uint8_t { none, training, held_out };

/// The split that a file's path names.
struct named_split {
  split kind = split::none;
  std::string name{};  ///< name as in the path, such as "train" or "train_sft"
};

/// Returns the split that the words of `text` name; words are separated by anything but letters.
named_split split_in(std::string_view text) {
  constexpr std::string_view training[] = {"train", "training"};
  constexpr std::string_view held_out[] = {"test", "testing",    "eval",  "evaluation",
                                           "val",  "validation", "valid", "dev"};
  named_split out;
  for (size_t at = 0; at < text.size();) {
    std::string word;
    while (at < text.size() && core::ascii_lower(text[at]) >= 'a' && core::ascii_lower(text[at]) <= 'z')
      word += core::ascii_lower(text[at++]);
    ++at;
    const bool trains = std::ranges::find(training, word) != std::end(training);
    const bool is_held_out = std::ranges::find(held_out, word) != std::end(held_out);
    if (!trains && !is_held_out) continue;
    if (out.kind != split::none && (out.kind == split::training) != trains) return {};  // the text names both splits
    out = {trains ? split::training : split::held_out, trains ? "train" : word};
  }
  return out;
}

/// Returns NAME of NAME-00000-of-00001, the form in which `push_to_hub` names the files of a split.
std::optional<std::string> name_of_shards(std::string_view stem) {
  const auto digits = [&](size_t from, size_t count) {
    return stem.size() >= from + count &&
           std::ranges::all_of(stem.substr(from, count), [](char c) { return c >= '0' && c <= '9'; });
  };
  const size_t of = stem.find("-of-");
  if (of == std::string_view::npos || of < 7 || stem[of - 6] != '-' || !digits(of - 5, 5) || !digits(of + 4, 5))
    return std::nullopt;
  return std::string(stem.substr(0, of - 6));
}

/// Returns the split that a path names; a folder's name is preferred to the file's.
named_split split_of(const fs::path& relative) {
  named_split out;
  for (const auto& part : relative.parent_path())
    if (auto found = split_in(part.string()); found.kind != split::none) out = found;
  if (out.kind != split::none) return out;
  const std::string stem = relative.filename().string();
  out = split_in(stem.substr(0, stem.find('.') == 0 ? stem.npos : stem.rfind('.')));
  if (const auto shards = name_of_shards(stem); shards && out.kind != split::none) out.name = *shards;
  return out;
}

bool is_card_or_licence(const fs::path& p) {
  constexpr std::string_view names[] = {"readme", "license", "licence", "copying", "notice", "citation", "changelog"};
  const std::string name = core::lowered(p.filename().string());
  const auto stem = name.substr(0, name.find('.'));
  const auto first = stem.substr(0, stem.find_first_of("-_"));
  return std::ranges::find(names, stem) != std::end(names) || first == "license" || first == "readme";
}

bool describes_data(const fs::path& p) {
  constexpr std::string_view names[] = {"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json",
                                        "croissant.json"};
  return std::ranges::find(names, p.filename().string()) != std::end(names);
}

/// True if a path of the card's file lists matches: `*`, `?` and `[...]` match within a name, `**` across names. Keeps
/// the positions of the path that the pattern has reached, so the time is at most the product of both lengths.
bool matches(std::string_view pattern, std::string_view path) {
  std::vector<char> reached(path.size() + 1);
  reached[0] = 1;
  while (!pattern.empty()) {
    std::vector<char> next(path.size() + 1);
    const bool folders = pattern.starts_with("**/"), anything = pattern.starts_with("**"),
               name = pattern.starts_with('*'), one = pattern.starts_with('?') || pattern.starts_with('[');
    for (size_t at = 0; at <= path.size(); ++at) {
      const char before = at > 0 ? path[at - 1] : '\0';
      if (anything)
        next[at] = reached[at] != 0 || (at > 0 && next[at - 1] != 0);
      else if (name)
        next[at] = reached[at] != 0 || (at > 0 && next[at - 1] != 0 && before != '/');
      else
        next[at] = at > 0 && reached[at - 1] != 0 && (one ? before != '/' : before == pattern.front());
    }
    if (folders)  // `**` followed by a slash matches whole names only
      for (size_t at = 0; at <= path.size(); ++at)
        if (reached[at] == 0 && (at == 0 || path[at - 1] != '/')) next[at] = 0;
    const size_t class_end = pattern.starts_with('[') ? pattern.find(']') : 0;
    pattern.remove_prefix(folders ? 3 : anything ? 2 : std::min(class_end, pattern.size() - 1) + 1);
    reached = std::move(next);
  }
  return reached.back() != 0;
}

bool has_row_kind(const fs::path& p) {
  const auto kind = kind_of(p);
  return kind != source_kind::text && kind != source_kind::tokens;
}

/// Selects the training files of a folder among files whose splits are known.
class choosing {
 public:
  choosing(const fs::path& folder, source_listing& to) : folder_(folder), to_(to) {}

  /// Keeps the files of training splits; `splits` has one entry for each file. Files without a split stay only if no
  /// file has one.
  core::result<void> keep_training(const std::vector<named_split>& splits) {
    std::set<std::string> training, others;
    for (const auto& s : splits) {
      if (s.kind == split::training) training.insert(s.name);
      if (s.kind == split::held_out) others.insert(s.name);
    }
    if (training.empty() && others.empty()) return {};
    if (training.empty())
      return fail(
          error_kind::bad_input,
          fmt::format(
              "'{}' holds the splits {} of a data set but none for training: name the files or the folder to train on",
              folder_.string(), fmt::join(others, ", ")));
    const bool has_train = training.contains("train");
    if (!has_train && training.size() > 1)
      return fail(error_kind::bad_input,
                  fmt::format("'{}' holds the splits {} of a data set: name the files or the folder of one of them",
                              folder_.string(), fmt::join(training, ", ")));
    const std::string taken = has_train ? "train" : *training.begin();
    std::vector<fs::path> files;
    for (size_t i = 0; i < splits.size(); ++i) {
      if (splits[i].name == taken && splits[i].kind == split::training)
        files.push_back(std::move(to_.files[i]));
      else
        to_.left_out.push_back(
            {std::move(to_.files[i]), splits[i].kind == split::none ? "of no split" : "split " + splits[i].name});
    }
    to_.files = std::move(files);
    return {};
  }

  /// Keeps the files of the card's only or default configuration.
  core::result<void> keep_configured(const std::vector<card_configuration>& all) {
    auto chosen = std::ranges::find_if(all, &card_configuration::is_default);
    if (chosen == all.end() && all.size() > 1) {
      std::vector<std::string> names;
      for (const auto& c : all) names.push_back(c.name);
      return fail(
          error_kind::bad_input,
          fmt::format(
              "'{}' holds the configurations {} of a data set (README.md): name the files or the folder of one of them",
              folder_.string(), fmt::join(names, ", ")));
    }
    if (chosen == all.end()) chosen = all.begin();
    const std::string prefix = chosen->folder.empty() ? "" : chosen->folder + "/";
    if (chosen->splits.empty()) {
      if (!prefix.empty()) leave_out_where([&](const std::string& p) { return !p.starts_with(prefix); });
      return keep_named();
    }
    std::vector<named_split> splits(to_.files.size());
    bool any = false;
    for (const auto& s : chosen->splits)
      for (size_t i = 0; i < to_.files.size(); ++i)
        if (std::ranges::any_of(s.paths, [&](const auto& p) { return matches(prefix + p, relative(to_.files[i])); })) {
          const bool trains = split_in(s.name).kind == split::training || chosen->splits.size() == 1;
          splits[i] = {trains ? split::training : split::held_out, s.name};
          any = true;
        }
    if (!any)
      return fail(error_kind::bad_input, fmt::format("'{}': the data files that its README.md names do not exist: copy "
                                                     "the whole data set, or name the files to train on",
                                                     folder_.string()));
    return keep_training(splits);
  }

  /// True if every file names its split, some for training and some held out, like `wiki.train.raw` and
  /// `wiki.test.raw`.
  [[nodiscard]] bool are_all_split() const {
    bool trains = false, is_held_out = false;
    for (const auto& p : to_.files) {
      const auto kind = split_of(relative(p)).kind;
      if (kind == split::none) return false;
      (kind == split::training ? trains : is_held_out) = true;
    }
    return trains && is_held_out;
  }

  core::result<void> keep_named() {
    std::vector<named_split> splits;
    for (const auto& p : to_.files) splits.push_back(split_of(relative(p)));
    return keep_training(splits);
  }

 private:
  [[nodiscard]] std::string relative(const fs::path& p) const { return p.lexically_relative(folder_).generic_string(); }

  void leave_out_where(const std::function<bool(const std::string&)>& other) {
    std::erase_if(to_.files, [&](const fs::path& p) {
      if (!other(relative(p))) return false;
      to_.left_out.push_back({p, "another configuration"});
      return true;
    });
  }

  const fs::path& folder_;
  source_listing& to_;
};

core::result<void> check_one_form(const fs::path& folder, const std::vector<fs::path>& files) {
  const auto other = std::ranges::find_if(files, [&](const auto& p) { return kind_of(p) != kind_of(files.front()); });
  if (other == files.end()) return {};
  return fail(
      error_kind::bad_input,
      fmt::format(
          "'{}' holds a data set in several forms, such as '{}' and '{}': name the files or the folder of one of them",
          folder.string(), files.front().lexically_relative(folder).string(),
          other->lexically_relative(folder).string()));
}

}  // namespace

core::result<source_listing> training_files_of(const fs::path& folder, std::vector<fs::path> files) {
  source_listing out;
  const auto has_rows = [](const fs::path& p) { return has_row_kind(p) && !describes_data(p); };
  const bool rows = std::ranges::any_of(files, has_rows);
  TROUPE_ASSIGN(const auto described, read_card(folder));
  std::error_code ec;
  const bool is_known = described.is_there || fs::exists(folder / "dataset_infos.json", ec);
  if (!rows && !is_known) {
    out.files = std::move(files);
    choosing choice(folder, out);
    if (choice.are_all_split()) (void)choice.keep_named();
    return out;
  }
  const bool is_repository = is_known || fs::exists(folder / ".gitattributes", ec);
  for (auto& p : files) {
    const bool is_text = kind_of(p) == source_kind::text;
    if (is_text && is_card_or_licence(p))
      out.left_out.push_back({std::move(p), "card or licence"});
    else if (describes_data(p))
      out.left_out.push_back({std::move(p), "describes the data"});
    else if (is_text && rows && is_repository)
      out.left_out.push_back({std::move(p), "text next to the rows"});
    else
      out.files.push_back(std::move(p));
  }
  choosing choice(folder, out);
  TROUPE_TRY(described.configurations.empty() ? choice.keep_named() : choice.keep_configured(described.configurations));
  if (is_repository && !out.files.empty()) TROUPE_TRY(check_one_form(folder, out.files));
  return out;
}

}  // namespace troupe::data
