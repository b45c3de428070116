// Errors and warnings about a configuration, with their positions in its files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::config {

struct diagnostic {  ///< an error or a warning about a configuration, with its position in a file
  enum severity_kind : uint8_t { warning, error };
  severity_kind severity = error;
  std::string file;          ///< name of the file as given; `--set key=value` for an override
  int line = 0, column = 0;  ///< line and column of the problem, counted from 1; line 0: the whole of `file`
  std::string key;           ///< full dotted name of the configuration key that the message is about; empty: none
  std::string text;          ///< message without position and key: the expected and the actual value

  /// Returns the diagnostic as one line: `job.yaml:8:21: error: zero_optimization.stage: wanted an integer from 0 to 3,
  /// got 7`
  [[nodiscard]] std::string render() const;
  bool operator==(const diagnostic&) const = default;
};

/// Returns all diagnostics, one per line.
std::string render(const std::vector<diagnostic>& all);

}  // namespace troupe::config
