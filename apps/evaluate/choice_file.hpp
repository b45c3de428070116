// Reads the questions of a multiple-choice task from a file of JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

/// Largest number of bytes of one line of a file of questions.
inline constexpr uint64_t max_choice_line_bytes = uint64_t{16} << 20;

/// A question: a text, and the texts of which the model chooses the one that continues it.
struct choice_question {
  uint64_t line = 0;  ///< number of its line in the file, from 1
  std::string context;
  std::vector<std::string> choices;
  uint64_t answer = 0;  ///< index of the right choice
};

/// Reads one question from a line: {"context": TEXT, "choices": [TEXT, ...], "answer": INDEX}. Refused: broken JSON, a
/// key beside these three or twice, no text before the choices, fewer than two choices, an empty one, an answer that is
/// none of them.
core::result<choice_question> question_of(std::string_view line);

/// Reads all questions of a file; empty lines are skipped. Refused, with file and line: what question_of() refuses, a
/// line that is too long, a file that cannot be read or has no question.
core::result<std::vector<choice_question>> read_questions(const std::filesystem::path& file);

/// The two texts that are encoded for one choice, as lm_eval splits them.
struct choice_text {
  std::string context;       ///< without white space at its end
  std::string continuation;  ///< that white space, a blank, and the choice
};

/// Splits the text of choice number `choice`.
choice_text text_of(const choice_question& question, uint64_t choice);

}  // namespace troupe::apps
