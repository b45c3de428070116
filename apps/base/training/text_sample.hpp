// Generates the text that a run shows at its end, as the section `sample` asks: a continuation of sample.prompt, or an
// answer to sample.question. Leaves showing it to the callers.
#pragma once

#include <memory>
#include <string>

#include "actors/session/session.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "data/chat/chat_format.hpp"
#include "data/chat/question.hpp"

namespace troupe::apps {

class text_sample {
 public:
  /// Stores its argument, which must outlive this object.
  explicit text_sample(const config::job_config& config) : config_(config) {}

  /// True if the configuration requests a sample.
  [[nodiscard]] bool is_wanted() const { return config_.sample.tokens > 0; }
  /// Renders sample.question, if there is one; called before the first step, so that a run whose template cannot render
  /// it does not train in vain. Errors: bad_input for the template, the tokenizer, and a question that leaves no room
  /// for an answer.
  core::result<void> prepare(const actors::session& s);

  struct made_text {
    std::string text;
    std::string missing{};  ///< reason why `text` is empty; else empty
  };
  /// Generates the sample, after prepare(). Errors: those of session::generate and of the tokenizer.
  [[nodiscard]] core::result<made_text> make(actors::session& s) const;

 private:
  [[nodiscard]] core::result<made_text> answer(actors::session& s) const;

  const config::job_config& config_;
  std::shared_ptr<const data::chat_format> format_;  // renders sample.question; null: there is no question
  data::asked_question question_;
};

}  // namespace troupe::apps
