#include "apps/evaluate/evaluate_command.hpp"

#include <CLI/CLI.hpp>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"

namespace troupe::apps {

evaluate_command::evaluate_command(CLI::App& parent)
    : program_command(parent, "evaluate", "the loss of a trained model over a text, and its answers to questions") {
  auto& a = arguments_;
  command_->footer("Exit codes: 0 well; 1 failed; 2 arguments or SOURCE refused; 130, 143 interrupted.");
  command_->add_option("source", a.source.path, "a checkpoint or weights, as troupe checkpoint takes them")->required();
  command_->add_option("--text", a.text, "a text: its loss per token and its perplexity, each token counted once");
  command_->add_option("--choices", a.choices,
                       "JSON lines with context, choices and answer (the index of a choice): how many answers are "
                       "right, as lm_eval counts them");
  command_->add_option("--sequence", a.sequence, "tokens of a window; by default what the model reads, at most 1024");
  command_->add_option("--tokenizer", a.tokenizer, "a path or `bytes`; by default the one that the checkpoint has");
  command_->add_option("--tag", a.source.tag,
                       "which checkpoint of a folder; by default the one that its `latest` names");
  command_
      ->add_flag("--fallback-to-previous", a.source.fallback_to_previous,
                 "if the newest checkpoint cannot be opened, take the newest that can")
      ->excludes("--tag");
  command_->add_option("--map", a.source.map, "a file that gives the tensors other names");
  command_->add_option("--model-config", a.model_config,
                       "Hugging Face's config.json of the model; by default what the checkpoint says of it");
  command_
      ->add_option("--ignore-key", a.source.ignored_keys,
                   "a key of config.json to read as if it were not there; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_json(*command_, a.form);
  a.source.wants_weights = true;
}

core::result<void> evaluate_command::check() const {
  const auto& a = arguments_;
  if (a.text.empty() && a.choices.empty()) return core::refused("wanted --text FILE or --choices FILE, got neither");
  return refuse_idle(given_in(*command_), {{!a.text.empty(), "--text, which is not given", {"--sequence"}}});
}

}  // namespace troupe::apps
