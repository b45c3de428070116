// Renders a conversation as text, and finds the parts of the text that are answers. Owns the two ways to find them: the
// marks of a template with {% generation %}, or the difference of two renderings; leaves tokens to chat_sample.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/sample_types.hpp"
#include "data/chat/chat_format.hpp"
#include "data/chat/conversation.hpp"
#include "data/templates/chat_template.hpp"

namespace troupe::data {

struct rendered_conversation {
  std::string text;
  std::vector<text_span> counted;  ///< parts of the text whose tokens count: ascending, separate, none empty
  bool ends_text = false;          ///< true: the end-of-text token follows the text, and counts
};

/// Returns the text of `from` and the parts of it that `part` lets count.
///
/// A template that marks generated texts gives the answers itself. For another one, the answer of message k is the
/// difference between the rendering of messages 0 to k, and that of the messages before k with the words that begin an
/// answer (add_generation_prompt). Both have to be the beginning of the whole text, else the difference proves nothing:
/// such a conversation is refused. A pair of a prompt and a completion without a template is the two texts.
///
/// A template that writes the time does so with the date of the chat_format.
///
/// Errors (bad_input), without the row's place: those of the template; a template that writes the time without a date;
/// renderings that are no beginnings of the whole text; answers without text; marks that do not fit the messages.
core::result<rendered_conversation> render(const chat_format& by, const conversation& from, core::loss_part part);

/// Returns the text of the messages of `from`, which needs no answers; `begins_answer`: the words that begin an answer
/// follow (add_generation_prompt). Errors (bad_input): those of the template; joined_template, which renders none.
core::result<std::string> render_messages(const chat_format& by, const conversation& from, bool begins_answer);

}  // namespace troupe::data
