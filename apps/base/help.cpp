#include "apps/base/help.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>

#include "config/keys/key_table.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

struct command_example {
  std::string_view command, text;
};

// Examples for all commands; paths are relative to a checkout or /usr/share/troupe, and `run` is a run's output folder.
constexpr command_example examples[] = {
    {"", "troupe train examples/smallest.yaml"},
    {"train", "troupe train examples/smallest.yaml --steps 20 --set zero_optimization.stage=2"},
    {"plan", "troupe plan examples/smallest.yaml --explain"},
    {"simulate", "troupe simulate examples/smallest.yaml --fault 'rank 1 dies at step 2'"},
    {"schedule", "troupe schedule 1f1b --ranks 4 --micro-batches 8"},
    {"simulate", "troupe simulate --table examples/steps_h100.csv --hardware megatron_h100"},
    {"calibrate", "troupe calibrate --fit examples/steps_h100.csv --hardware megatron_h100 --out own.yaml"},
    {"tune", "troupe tune examples/smallest.yaml --set parallel.context=1 --trials 2"},
    {"analyse", "troupe analyse run"},
    {"config", "troupe config check examples/smallest.yaml"},
    {"config check", "troupe config check examples/smallest.yaml --set seed=2"},
    {"config explain", "troupe config explain examples/smallest.yaml --given"},
    {"config schema", "troupe config schema > troupe.schema.json"},
    {"init", "troupe init job.yaml --text examples/corpus.txt"},
    {"data", "troupe data tokenize examples/corpus.txt --tokenizer bytes --output corpus.bin"},
    {"data tokenize", "troupe data tokenize examples/corpus.txt --tokenizer bytes --output corpus.bin"},
    {"data inspect", "troupe data inspect corpus.bin --tokens 20"},
    {"data render", "troupe data render bytes examples/chat.jsonl --chat-template examples/chatml.jinja"},
    {"doctor", "troupe doctor /var/tmp"},
    {"checkpoint", "troupe checkpoint inspect run"},
    {"checkpoint inspect", "troupe checkpoint inspect run"},
    {"checkpoint verify", "troupe checkpoint verify run --quiet"},
    {"checkpoint diff", "troupe checkpoint diff run run"},
    {"checkpoint to-fp32", "troupe checkpoint to-fp32 run weights.safetensors"},
    {"checkpoint to-hf", "troupe checkpoint to-hf run hf --dtype bf16"},
    {"checkpoint merge-adapter", "troupe checkpoint merge-adapter base adapter merged"},
    {"checkpoint to-peft", "troupe checkpoint to-peft run adapter"},
    {"checkpoint to-gguf", "troupe checkpoint to-gguf run model.gguf --type q8_0"},
    {"checkpoint to-deepspeed", "troupe checkpoint to-deepspeed run ds --stage 2 --ranks 4"},
    {"checkpoint to-universal", "troupe checkpoint to-universal run universal"},
    {"checkpoint reshape", "troupe checkpoint reshape run reshaped --tp 2 --dp 2"},
    {"checkpoint to-dcp", "troupe checkpoint to-dcp run dcp --ranks 4"},
    {"compress", "troupe compress run small.gguf --to gguf:q4_0 --validate none"},
    {"evaluate", "troupe evaluate run --text examples/corpus.txt"},
    {"io", "troupe io bench /var/tmp --size 64M"},
    {"io bench", "troupe io bench /var/tmp --size 64M --queue-depth 8,32"},
    {"io tune", "troupe io tune /var/tmp --size 64M"},
    {"status", "troupe status run --json"},
    {"diagnose", "troupe diagnose run"},
    {"pause", "troupe pause run"},
    {"resume", "troupe resume run"},
    {"save", "troupe save run"},
    {"stop", "troupe stop run"},
    {"replace", "troupe replace run b"},
    {"launch", "troupe launch --hostfile hosts job.yaml"},
    {"agent", "troupe agent --join a:4400 --tls certs/b"},
    {"cert", "troupe cert init certs"},
    {"cert init", "troupe cert init certs"},
    {"cert issue", "troupe cert issue certs a b c"},
    {"cert renew", "troupe cert renew certs b"},
    {"completion", "troupe completion bash > troupe.bash"},
    {"man", "troupe man ~/.local/share/man"},
};

/// Breaks a list of choices that is longer than a line after its commas; the first line begins at column `column`,
/// further lines at column `indent`.
std::string broken(const std::string& words, size_t column, size_t indent) {
  if (column + words.size() <= help_columns) return words;
  std::string out;
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(',', at), words.size() - 1) + 1;
    if (column + (end - at) > help_columns && column > indent) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    out += words.substr(at, end - at);
    column += end - at;
    at = end;
  }
  return out;
}

/// Breaks `text` into lines of help_columns; the first line follows `begin`, further lines begin at column `indent`.
std::string folded(std::string begin, std::string_view text, size_t indent) {
  constexpr size_t more_indent = 6;
  if (begin.size() > help_columns) begin = broken(begin, 0, more_indent);
  if (begin.size() + 1 > indent && !text.empty())
    begin += "\n" + std::string(indent, ' ');
  else
    begin.resize(std::max(begin.size(), indent), ' ');
  size_t column = indent;
  std::string out = std::move(begin);
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > help_columns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    const auto word = broken(std::string(text.substr(0, end)), column, indent);
    out += word;
    const size_t last = word.rfind('\n');
    column = last == std::string::npos ? column + end : word.size() - last - 1;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "\n";
}

class help_form : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/, CLI::AppFormatMode /*mode*/) const override {
    std::string usage = full_name(*app);
    const auto options = app->get_options([](const CLI::Option* o) { return o->nonpositional(); });
    const auto arguments = app->get_options([](const CLI::Option* o) { return o->get_positional(); });
    const auto commands = app->get_subcommands([](const CLI::App* a) { return !a->get_name().empty(); });
    if (!options.empty()) usage += " [OPTIONS]";
    for (const auto* a : arguments) usage += a->get_required() ? " " + written(*a) : " [" + written(*a) + "]";
    if (!commands.empty()) usage += " COMMAND";
    std::string out = folded("Usage:", usage, 7) + folded("", app->get_description(), 0);
    constexpr size_t indent = 26;
    if (!arguments.empty() || !options.empty()) out += "\n";
    for (const auto* a : arguments) out += folded("  " + written(*a), described(*a), indent);
    for (const auto* o : options) out += folded("  " + written(*o), described(*o), indent);
    if (!commands.empty()) out += "\n";
    for (const auto* c : commands) out += folded("  " + c->get_name(), c->get_description(), indent / 2);
    const std::string name = full_name(*app);
    const auto example = example_of(std::string_view(name).substr(std::min(name.size(), name.find(' '))));
    out += "\n";
    if (!example.empty()) out += fmt::format("Example: {}\n", example);
    return out + (app->get_footer().empty() ? folded("Exit codes:", exit_codes, 12) : app->get_footer() + "\n");
  }

 private:
  static std::string described(const CLI::Option& o) {
    if (o.check_name("--help")) return "show this help";
    std::string out = o.get_description();
    if (!o.get_default_str().empty()) out += fmt::format(" [{}]", o.get_default_str());
    return out;
  }
};

void finish(CLI::App& app, const std::shared_ptr<help_form>& form) {
  app.formatter(form);
  for (CLI::App* c : app.get_subcommands([](CLI::App*) { return true; })) finish(*c, form);
}

/// Returns CLI11's message, except for an unknown command: then names the word and the nearest command.
std::string failure_text(const CLI::App* program, const CLI::Error& e) {
  const CLI::App* at = program;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const auto words = program->remaining(true);
  const auto word = std::ranges::find_if(words, [](const std::string& w) { return !w.starts_with('-'); });
  const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
  if (word == words.end() || commands.empty() || e.get_name() != "RequiredError")
    return CLI::FailureMessage::simple(program, e);
  const std::string shown = core::shown(*word);
  const auto* const nearest = *std::ranges::min_element(
      commands, {}, [&](const CLI::App* c) { return config::edits(shown.substr(0, 40), c->get_name()); });
  return fmt::format("unknown command '{}', the nearest is '{}'\nRun with --help for more information.\n", shown,
                     full_name(*nearest));
}

}  // namespace

void finish_help(CLI::App& program) {
  finish(program, std::make_shared<help_form>());
  program.failure_message(failure_text);
}

std::string_view example_of(std::string_view command) {
  if (command.starts_with(' ')) command.remove_prefix(1);
  const auto* const at = std::ranges::find(examples, command, &command_example::command);
  return at == std::end(examples) ? std::string_view() : at->text;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* const above = command.get_parent();
  return above == nullptr ? command.get_name() : full_name(*above) + " " + command.get_name();
}

std::string written(const CLI::Option& o) {
  std::string type = o.get_items_expected_max() > 0 ? o.get_type_name() : "";
  if (const size_t colon = type.find(':'); colon != std::string::npos)
    type = type.find('{') == std::string::npos ? type.substr(0, colon) : type.substr(type.find('{'));
  if (o.get_positional()) {
    std::string name = o.get_name(true);
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
    return name + (o.get_items_expected_max() > 1 ? "..." : "");
  }
  std::string names;
  for (const auto& s : o.get_snames()) names += (names.empty() ? "-" : ",-") + s;
  for (const auto& l : o.get_lnames()) names += (names.empty() ? "--" : ",--") + l;
  return type.empty() ? names : names + " " + type;
}

}  // namespace troupe::apps
