// Chooses the files of a folder that is a data set's repository of Hugging Face's hub: rows in files, splits by their
// names, a card and a licence next to them. Owns which files are trained on: the train split, chosen as `datasets`
// does.
#include "data/formats/folder_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "data/formats/card.hpp"

namespace troupe::data {
namespace {

/// True if the text has a character that makes it a pattern.
bool is_pattern(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

/// Returns the length of the character class, such as `[a-z]`, at the beginning of `pattern`, with its brackets; 0 if
/// there is none.
size_t class_length(std::string_view pattern) {
  if (!pattern.starts_with('[')) return 0;
  const size_t first = pattern.substr(1).starts_with('!') ? 2 : 1;
  const size_t end = pattern.find(']', first + 1);  // a `]` directly after `[` is a member of the class
  return end == std::string_view::npos ? 0 : end + 1;
}

/// True if character `c` is in the character class `whole`, which includes its brackets.
bool is_in_class(std::string_view whole, char c) {
  auto members = whole.substr(1, whole.size() - 2);
  const bool is_negated = members.starts_with('!');
  if (is_negated) members.remove_prefix(1);
  const auto byte = [](char x) { return static_cast<unsigned char>(x); };
  bool found = false;
  while (!members.empty()) {
    const bool is_range = members.size() >= 3 && members[1] == '-';
    const char last = is_range ? members[2] : members[0];
    found = found || (byte(members[0]) <= byte(c) && byte(c) <= byte(last));
    members.remove_prefix(is_range ? 3 : 1);
  }
  return found != is_negated;
}

/// True if the whole `path` matches: `*`, `?` and classes such as `[0-7]` and `[!x]` match within a name, `**` across
/// names. The time is at most the product of both lengths.
bool matches_pattern(std::string_view pattern, std::string_view path) {
  // [position in path]: 1 if the part of the pattern that has been processed matches the path up to this position.
  std::vector<char> reached(path.size() + 1);
  reached[0] = 1;
  while (!pattern.empty()) {
    std::vector<char> next(path.size() + 1);
    const bool folders = pattern.starts_with("**/"), anything = pattern.starts_with("**"),
               name = pattern.starts_with('*');
    const size_t of_class = class_length(pattern);
    const auto fits = [&](char c) {
      if (of_class > 0) return c != '/' && is_in_class(pattern.substr(0, of_class), c);
      return pattern.front() == '?' ? c != '/' : c == pattern.front();
    };
    for (size_t at = 0; at <= path.size(); ++at) {
      const char before = at > 0 ? path[at - 1] : '\0';
      if (name)
        next[at] = reached[at] != 0 || (at > 0 && next[at - 1] != 0 && (anything || before != '/'));
      else
        next[at] = at > 0 && reached[at - 1] != 0 && fits(before);
    }
    if (folders)  // `**/` matches only whole names of folders
      for (size_t at = 0; at <= path.size(); ++at)
        if (reached[at] == 0 && (at == 0 || path[at - 1] != '/')) next[at] = 0;
    pattern.remove_prefix(folders ? 3 : anything ? 2 : std::max<size_t>(of_class, 1));
    reached = std::move(next);
  }
  return reached.back() != 0;
}

namespace fs = std::filesystem;

/// Selects the files of a data set's folder that are trained on, by the splits (train, test, ...) to which the files
/// belong.
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

  /// Keeps the training files of the only configuration of the data set's card, or of its default one.
  core::result<void> keep_configured(const std::vector<card_configuration>& all) {
    TROUPE_ASSIGN(const auto* const chosen, configuration_of(all));
    const std::string prefix = chosen->folder.empty() ? "" : chosen->folder + "/";
    if (chosen->splits.empty()) {
      if (!prefix.empty()) leave_out_where([&](const std::string& p) { return !p.starts_with(prefix); });
      if (to_.files.empty()) return names_nothing(chosen->folder);
      return keep_named();
    }
    std::vector<named_split> splits(to_.files.size());
    std::optional<std::string> unmatched;
    bool any = false;
    for (const auto& s : chosen->splits) {
      const auto kind = split_in(s.name).kind;
      const bool trains = kind == split::training || (kind == split::none && chosen->splits.size() == 1);
      for (const auto& p : s.paths) {
        bool matched = false;
        for (size_t i = 0; i < to_.files.size(); ++i) {
          if (!matches_pattern(prefix + p, relative(to_.files[i]))) continue;
          any = matched = true;
          if (splits[i].kind != split::training) splits[i] = {trains ? split::training : split::held_out, s.name};
        }
        // A pattern of the card may match no file, as in `datasets`, but a plain path of a training file must exist;
        // held-out files are often not fetched, so their paths need not exist.
        if (!matched && !unmatched && trains && !is_pattern(p)) unmatched = prefix + p;
      }
    }
    if (!any && !unmatched) unmatched = prefix + chosen->splits.front().paths.front();
    if (unmatched) return names_nothing(*unmatched);
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

  /// Returns the card's only or default configuration; refuses several configurations without a default.
  [[nodiscard]] core::result<const card_configuration*> configuration_of(
      const std::vector<card_configuration>& all) const {
    const auto defaults = std::ranges::count_if(all, &card_configuration::is_default);
    if (all.size() == 1) return &all.front();
    if (defaults == 1) return &*std::ranges::find_if(all, &card_configuration::is_default);
    std::vector<std::string> names;
    for (const auto& c : all)
      if (defaults == 0 || c.is_default) names.push_back(c.name);
    return fail(
        error_kind::bad_input,
        fmt::format("'{}' holds the {}configurations {} of a data set (README.md): name the files or the folder "
                    "of one of them",
                    folder_.string(), defaults == 0 ? "" : "default ", fmt::join(names, ", ")));
  }

  [[nodiscard]] core::result<void> names_nothing(const std::string& name) const {
    return fail(error_kind::bad_input,
                fmt::format("'{}': the data files that its README.md names do not exist: nothing is named '{}': copy "
                            "the whole data set, or name the files to train on",
                            folder_.string(), core::shown(name)));
  }

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

core::result<source_listing> training_files_of(const fs::path& folder, source_listing listed) {
  leave_out_side_files(folder, listed);
  const auto has_rows = [](const fs::path& p) { return has_keys(kind_of(p)) && !describes_data(p); };
  const bool rows = std::ranges::any_of(listed.files, has_rows);
  TROUPE_ASSIGN(const auto described, read_card(folder));
  std::error_code ec;
  const bool is_known = described.is_there || fs::exists(folder / "dataset_infos.json", ec);
  const bool is_repository = is_known || fs::exists(folder / ".gitattributes", ec);
  const bool has_card = rows || is_known;
  source_listing out{{}, listed.left_out};
  for (const auto& p : listed.files) {
    const bool is_text = kind_of(p) == source_kind::text || kind_of(p) == source_kind::array;
    if (is_text && is_card_or_licence(p))
      out.left_out.push_back({p, "card or licence"});
    else if (has_card && describes_data(p))
      out.left_out.push_back({p, "describes the data"});
    else if (is_text && rows && is_repository)
      out.left_out.push_back({p, "text next to the rows"});
    else
      out.files.push_back(p);
  }
  choosing choice(folder, out);
  if (!has_card) {
    // No card or split marks the folder as a data set, so all files are texts.
    if (!choice.are_all_split()) return listed;
    TROUPE_TRY(choice.keep_named());
    return out;
  }
  TROUPE_TRY(described.configurations.empty() ? choice.keep_named() : choice.keep_configured(described.configurations));
  if (is_repository && !out.files.empty()) TROUPE_TRY(check_one_form(folder, out.files));
  return out;
}

}  // namespace troupe::data
