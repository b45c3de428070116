// Finds the completions of an unfinished command line: commands, options, values, files, keys after `--set`. Reads the
// tree of commands and the table of keys; the shells' scripts only print the results.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

struct suggestion {
  std::string text;     ///< the completed word; shells add no space after one that ends with `=`, `.` or `/`
  std::string meaning;  ///< meaning of the word, in one line; may be empty
};

/// Returns the completions of the last word of `words`, which may be empty. `words` follow the program's name.
std::vector<suggestion> suggest(const CLI::App& program, const std::vector<std::string>& words);

/// Returns the completions of an unfinished `key=value`: one level of keys at a time, then the key's values.
std::vector<suggestion> suggest_setting(std::string_view typed);

/// Returns files and folders whose names begin with `typed`, each with `before` in front.
std::vector<suggestion> suggest_files(const std::string& typed, const std::string& before = {});

}  // namespace troupe::apps
