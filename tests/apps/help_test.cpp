// Tests the help of every command: it fits on one screen and has a working example and the exit codes; and no output is
// coloured.
#include <sstream>

#include "tests/apps/pseudo_terminal.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(help)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

constexpr size_t screen_lines = 50, screen_columns = 100;

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

/// Appends all commands below `above`, found by shell completion: every suggested word with a description is a command.
void add_commands(const command_folder& at, const std::vector<std::string>& above, std::vector<std::string>& out) {
  auto words = above;
  words.insert(words.begin(), {"completion", "--words"});
  words.emplace_back();
  std::istringstream in(at.troupe(words).out);
  std::string path;
  for (const auto& w : above) path += (path.empty() ? "" : " ") + w;
  out.push_back(path);
  for (std::string line; std::getline(in, line);) {
    if (line.find('\t') == std::string::npos) continue;
    auto below = above;
    below.push_back(line.substr(0, line.find('\t')));
    add_commands(at, below, out);
  }
}

std::string help_of(const command_folder& at, const std::string& command) {
  auto words = words_of(command);
  words.emplace_back("--help");
  if (command == "doctor") words = {"doctor", "--help"};
  const auto did = at.troupe(words);
  BOOST_TEST(did.code == 0, command << ": " << did.err);
  BOOST_TEST(did.err.empty(), command << ": " << did.err);
  return did.out;
}

std::string example_in(const std::string& help) {
  const size_t at = help.find("Example: ");
  return at == std::string::npos ? "" : help.substr(at + 9, help.find('\n', at) - at - 9);
}

/// Returns true for commands that measure for minutes, or need other machines or an adapter; the example of `tune`,
/// which measures the machine first, is run by tests/apps/tune_test.cpp.
bool is_costly(const std::string& command) {
  for (const char* one :
       {"io tune", "tune", "agent", "launch", "replace", "checkpoint merge-adapter", "checkpoint to-peft"})
    if (command == one) return true;
  return false;
}
/// Returns true for commands that send a request to a running job.
bool asks_a_run(const std::string& command) {
  for (const char* one : {"status", "diagnose", "pause", "resume", "save", "stop"})
    if (command == one) return true;
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_help_fits_a_screen_with_an_example_and_the_exit_codes) {
  const command_folder at;
  std::vector<std::string> commands;
  add_commands(at, {}, commands);
  BOOST_TEST(commands.size() > 35U);
  for (const auto& command : commands) {
    const std::string help = help_of(at, command);
    BOOST_TEST(lines_of(help) <= screen_lines, command << ": " << lines_of(help) << " lines");
    std::istringstream in(help);
    for (std::string line; std::getline(in, line);) BOOST_TEST(line.size() <= screen_columns, line);
    BOOST_TEST(has(help, "Example: troupe "), command);
    BOOST_TEST(has(help, "Exit codes: 0 "), command);
  }
}

BOOST_AUTO_TEST_CASE(the_examples_work_from_an_installed_folder) {
  command_folder at;
  fs::create_directory(at.folder / "examples");
  for (const char* file : {"smallest.yaml", "corpus.txt", "chat.jsonl", "chatml.jinja", "steps_h100.csv"})
    fs::copy(fs::path(troupe::places::source_dir) / "examples" / file, at.folder / "examples" / file);
  const auto type = [&](const std::string& line) {
    return run({"/bin/sh", "-c", "exec 2>&1\n" + line}, at.folder.path(), [&] {
      const std::string path =
          fs::path(troupe::places::troupe_binary).parent_path().string() + ":" + std::getenv("PATH");
      ::setenv("PATH", path.c_str(), 1);
      ::setenv("HOME", at.folder.path().c_str(), 1);
    });
  };
  std::vector<std::string> commands;
  add_commands(at, {}, commands);

  fs::remove(at.folder / "job.yaml");  // the file must not exist, because `init` creates it
  process live({troupe::places::troupe_binary, "train", "examples/smallest.yaml", "--steps", "1000000", "--set",
                "output=run", "--set", "checkpoint.every_steps=1000000", "--json"},
               at.folder.path());
  BOOST_TEST_REQUIRE(live.wait_for("\"step\""));
  for (const char* command : {"status", "diagnose", "pause", "resume", "save", "stop"}) {
    const auto did = type(example_in(help_of(at, command)));
    BOOST_TEST(did.code == 0, command << ": " << did.out);
  }
  BOOST_TEST(live.end().code == 0);

  type("rm -rf certs");
  for (const auto& command : commands) {
    if (is_costly(command) || asks_a_run(command)) continue;
    const std::string example = example_in(help_of(at, command));
    // Files written by an earlier example are removed.
    type(
        "rm -rf corpus.bin corpus.bin.json weights.safetensors hf model.gguf ds universal latest_universal reshaped "
        "small.gguf");
    if (command == "data inspect")
      type("troupe data tokenize examples/corpus.txt --tokenizer bytes --output corpus.bin");
    if (command == "cert init") type("rm -rf certs");
    const auto did = type(example);
    // The machine may lack software that `doctor` recommends, in which case its exit code is 1.
    BOOST_TEST((did.code == 0 || (command == "doctor" && did.code == 1)), example << ": " << did.code << "\n"
                                                                                  << did.out.substr(0, 1000));
  }
}

BOOST_AUTO_TEST_CASE(wrong_usage_is_2_and_nothing_is_coloured_even_on_a_terminal) {
  command_folder at;
  at.folder.write("wrong.yaml", "steps: many\nmodel: {}\ndata: {}\n");
  for (const auto& words : std::vector<std::vector<std::string>>{{"plan"},
                                                                 {"train"},
                                                                 {"checkpoint", "verify"},
                                                                 {"no-such-command"},
                                                                 {"plan", "--no-such-option"},
                                                                 {"cert"}}) {
    auto command = words;
    command.insert(command.begin(), troupe::places::troupe_binary);
    pseudo_terminal terminal(command, at.folder.path());
    BOOST_TEST(terminal.end() == 2);
    BOOST_TEST(!has(terminal.shown(), "\x1b["), terminal.shown());
  }
  for (const char* no_color : {"", "1"})
    for (const auto& words : std::vector<std::vector<std::string>>{
             {"config", "check", "wrong.yaml"}, {"train", "job.yaml", "--steps", "2"}, {"--help"}}) {
      BOOST_TEST_INFO_SCOPE(no_color);
      auto command = words;
      command.insert(command.begin(), troupe::places::troupe_binary);
      pseudo_terminal terminal(command, at.folder.path(), [&] { ::setenv("NO_COLOR", no_color, 1); });
      terminal.end();
      // The output may erase a line (ESC [K), but must not set colours (ESC [ ... m).
      const std::string& shown = terminal.shown();
      for (size_t escape = shown.find("\x1b["); escape != std::string::npos; escape = shown.find("\x1b[", escape + 1))
        BOOST_TEST(shown[shown.find_first_not_of("0123456789;", escape + 2)] != 'm', shown);
    }
}

BOOST_AUTO_TEST_CASE(a_command_that_is_none_is_named_with_the_nearest) {
  const command_folder at;
  for (const auto& [words, nearest] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"tarin", "job.yaml"}, "unknown command 'tarin', the nearest is 'troupe train'"},
           {{"checkpoint", "verfy", "out"}, "unknown command 'verfy', the nearest is 'troupe checkpoint verify'"},
           {{"data", "tokenise", "x"}, "unknown command 'tokenise', the nearest is 'troupe data tokenize'"}}) {
    const auto did = check_exit(2, at.troupe(words));
    BOOST_TEST(did.err.starts_with(nearest), did.err);
  }
  BOOST_TEST(has(at.troupe({"checkpoint"}).err, "A subcommand is required"));
}

BOOST_AUTO_TEST_SUITE_END()
