// What may stand at the end of a command line that is being typed: commands, options, values, files, keys behind
// `--set`. From the tree of commands and the table of keys; the shells' scripts only ask this.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

struct suggestion {
  std::string text;     ///< the whole word; nothing is closed behind one that ends with `=`, `.` or `/`
  std::string meaning;  ///< one line; may be empty
};

/// The words behind the program's name, the last of which is to be completed (it may be empty).
std::vector<suggestion> suggest(const CLI::App& program, const std::vector<std::string>& words);

/// `key=value` that is being typed: one level of keys after the other, then the key's values.
std::vector<suggestion> suggest_setting(std::string_view typed);

/// Files and folders that begin so, each behind `before`.
std::vector<suggestion> suggest_files(const std::string& typed, const std::string& before = {});

}  // namespace troupe::apps
