#include "apps/completion/suggest.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "apps/base/help.hpp"

namespace troupe::apps {
namespace {

/// Limit of the entries of one folder that are examined.
constexpr size_t most_entries = 10000;

using found = std::vector<suggestion>;

void offer(found& out, const std::string& typed, const std::string& text, const std::string& meaning) {
  if (text.starts_with(typed)) out.push_back({text, meaning.substr(0, meaning.find('\n'))});
}

/// Prefix of a choice in an option's type that stands for the path of a file, so that files are suggested.
constexpr std::string_view file_choice = "FILE";

/// Returns the names between the braces of an option's type; empty if it has no choices.
std::vector<std::string> choices_of(const CLI::Option& o) {
  const std::string type = o.get_type_name();
  const size_t begin = type.find('{'), end = type.find('}');
  std::vector<std::string> out;
  if (begin == std::string::npos || end == std::string::npos) return out;
  for (size_t at = begin + 1; at < end;) {
    const size_t comma = std::min(type.find(',', at), end);
    out.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

found values_of(const CLI::Option& o, const std::string& typed, const std::string& before) {
  found out;
  if (const auto choices = choices_of(o); !choices.empty()) {
    for (const auto& c : choices) {
      if (c.starts_with(file_choice)) {
        for (auto& file : suggest_files(typed, before)) out.push_back(std::move(file));
      } else if (c.starts_with(typed)) {
        out.push_back({before + c, ""});
      }
    }
    return out;
  }
  const std::string type = o.get_type_name();
  if (type.starts_with("KEY=")) {
    out = suggest_setting(typed);
    for (auto& one : out) one.text = before + one.text;
    return out;
  }
  for (const char* const no_file : {"UINT", "INT", "FLOAT", "SENTENCE"})
    if (type.starts_with(no_file)) return out;
  return suggest_files(typed, before);
}

const CLI::Option* option_named(const CLI::App& app, const std::string& word) {
  for (const auto* o : app.get_options([](const CLI::Option* x) { return x->nonpositional(); }))
    if (o->check_name(word)) return o;
  return nullptr;
}

/// Returns the number of arguments that an option takes on the command line.
size_t words_of(const CLI::Option& o) {
  const int most = o.get_items_expected_max();
  return most <= 1 || !o.get_allow_extra_args() ? static_cast<size_t>(std::max(0, std::min(most, 1)))
                                                : static_cast<size_t>(most);
}

/// Parses the words typed so far: which command they select, and which option expects a value.
class reader {
 public:
  explicit reader(const CLI::App& program) : program_(program), at_(&program) {}

  void take(const std::string& word) {
    if (wanting_ > 0 && !(word.starts_with("--") && wanting_ > 1)) {
      --wanting_;
      return;
    }
    wanting_ = 0;
    if (word.starts_with("-") && word.size() > 1) {
      if (const size_t equals = word.find('='); equals != std::string::npos) return;
      option_ = known(word);
      given_.push_back(word);
      wanting_ = option_ == nullptr ? 0 : words_of(*option_);
      return;
    }
    for (const auto* c : at_->get_subcommands([](const CLI::App*) { return true; }))
      if (c->check_name(word)) {
        at_ = c;
        arguments_ = 0;
        return;
      }
    ++arguments_;
  }

  [[nodiscard]] found complete(const std::string& word) const {
    if (wanting_ > 0) return values_of(*option_, word, "");
    if (word.starts_with("--"))
      if (const size_t equals = word.find('='); equals != std::string::npos) {
        const auto* const o = known(word.substr(0, equals));
        return o == nullptr ? found() : values_of(*o, word.substr(equals + 1), word.substr(0, equals + 1));
      }
    found out;
    if (word.starts_with("-")) {
      for (const auto* app : open())
        for (const auto* o : app->get_options([](const CLI::Option* x) { return x->nonpositional(); }))
          for (const auto& name : o->get_lnames())
            if ((o->get_items_expected_max() > 1 || std::ranges::find(given_, "--" + name) == given_.end()) &&
                std::ranges::find(out, "--" + name, &suggestion::text) == out.end())
              offer(out, word, "--" + name, o->get_description());
      return out;
    }
    for (const auto* c : at_->get_subcommands([](const CLI::App*) { return true; }))
      offer(out, word, c->get_name(), c->get_description());
    const auto arguments = open().back()->get_options([](const CLI::Option* o) { return o->get_positional(); });
    if (arguments.empty()) return out;
    const size_t index = std::min(arguments_, arguments.size() - 1);
    if (arguments_ > index && arguments[index]->get_items_expected_max() <= 1) return out;
    for (auto& one : values_of(*arguments[index], word, "")) out.push_back(std::move(one));
    return out;
  }

 private:
  /// Returns the current command. If it forwards unknown words to `train`, also returns `train`, so that the options of
  /// both are completed.
  [[nodiscard]] std::vector<const CLI::App*> open() const {
    std::vector<const CLI::App*> out{at_};
    if (at_ != &program_ && at_->get_prefix_command())
      for (const auto* c : program_.get_subcommands([](const CLI::App* x) { return x->check_name(handed_to); }))
        out.push_back(c);
    return out;
  }

  [[nodiscard]] const CLI::Option* known(const std::string& word) const {
    for (const auto* app : open())
      if (const auto* o = option_named(*app, word)) return o;
    return nullptr;
  }

  static constexpr const char* handed_to = "train";
  const CLI::App& program_;
  const CLI::App* at_;
  const CLI::Option* option_ = nullptr;
  size_t wanting_ = 0, arguments_ = 0;
  std::vector<std::string> given_;
};

}  // namespace

std::vector<suggestion> suggest(const CLI::App& program, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  reader typed(program);
  for (size_t i = 0; i + 1 < words.size(); ++i) typed.take(words[i]);
  return typed.complete(words.back());
}

std::vector<suggestion> suggest_files(const std::string& typed, const std::string& before) {
  namespace fs = std::filesystem;
  const size_t slash = typed.rfind('/');
  const std::string shown = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string begin = typed.substr(shown.size());
  fs::path folder = shown.empty() ? fs::path(".") : fs::path(shown);
  if (const char* home = std::getenv("HOME"); home != nullptr && shown.starts_with("~/"))
    folder = fs::path(home) / shown.substr(2);
  found out;
  std::error_code e;
  size_t looked = 0;
  for (fs::directory_iterator at(folder, e), end; !e && at != end && looked < most_entries; at.increment(e), ++looked) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(begin) || (begin.empty() && name.starts_with('.'))) continue;
    // Skips the name, because the shells' scripts read one suggestion per line
    if (name.find_first_of("\n\t") != std::string::npos) continue;
    std::error_code unknown;
    out.push_back({before + shown + name + (at->is_directory(unknown) ? "/" : ""), ""});
  }
  std::ranges::sort(out, {}, &suggestion::text);
  return out;
}

}  // namespace troupe::apps
