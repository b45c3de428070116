// Tests shell completion and the manual: by calling `troupe completion`, and in real shells on a terminal.
#include <algorithm>
#include <sstream>

#include "tests/apps/pseudo_terminal.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(completion)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

/// Returns the words that may complete the last of `words`.
std::vector<std::string> suggested(const command_folder& at, std::vector<std::string> words) {
  words.insert(words.begin(), {"completion", "--words"});
  const auto did = check_exit(0, at.troupe(words));
  std::vector<std::string> out;
  std::istringstream in(did.out);
  for (std::string line; std::getline(in, line);) out.push_back(line.substr(0, line.find('\t')));
  return out;
}

bool has_word(const std::vector<std::string>& words, const std::string& one) {
  return std::ranges::find(words, one) != words.end();
}

bool has_program(const std::string& name) {
  if (std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0) return true;
  troupe::tests::say_skipped("completion in a real " + name, "no " + name + " is installed",
                             name == "man" ? "man-db" : name);
  return false;
}

/// A shell with completion, which runs on a pseudo-terminal in a folder with job.yaml.
class shell {
 public:
  shell(const std::vector<std::string>& command, const std::string& begin, const command_folder& at)
      : terminal_(command, at.folder.path(), [] {
          const std::string path =
              fs::path(troupe::places::troupe_binary).parent_path().string() + ":" + std::getenv("PATH");
          ::setenv("PATH", path.c_str(), 1);
          ::setenv("TERM", "dumb", 1);
          ::setenv("HOME", "/nonexistent", 1);
        }) {
    terminal_.type(begin + "\nprintf '%s\\n' rea''dy\n");
    BOOST_TEST_REQUIRE(terminal_.shows("ready"), terminal_.shown());
  }

  /// Types a line and the Tab key, and compares the completed line with `words`, in which each word is in <>.
  void completes(const std::string& typed, const std::string& words) {
    terminal_.type(typed + "\t");
    // The following text reaches the shell only after it has completed the word.
    terminal_.type("\x01printf '<%s>' \x05; printf 'en''d\\n'\n");
    BOOST_TEST(terminal_.shows(words + "end"), typed << ": wanted " << words << ", got\n" << terminal_.shown());
  }

 private:
  pseudo_terminal terminal_;
};

void completes_all(shell& s) {
  s.completes("troupe sche", "<troupe><schedule>");
  s.completes("troupe checkpoint ver", "<troupe><checkpoint><verify>");
  s.completes("troupe cert iss", "<troupe><cert><issue>");
  s.completes("troupe agent --jo", "<troupe><agent><--jo>");  // the word may be completed to --join or to --job
  s.completes("troupe train --load-m", "<troupe><train><--load-module-only>");
  s.completes("troupe train jo", "<troupe><train><job.yaml>");
  s.completes("troupe train 'job.yaml' --set zero_opt", "<troupe><train><job.yaml><--set><zero_optimization.>");
  s.completes("troupe plan job.yaml --set zero_optimization.offload_p",
              "<troupe><plan><job.yaml><--set><zero_optimization.offload_param.>");
  s.completes("troupe plan job.yaml --set zero_optimization.offload_param.device=nv",
              "<troupe><plan><job.yaml><--set><zero_optimization.offload_param.device=nvme>");
  s.completes("troupe plan job.yaml --set data.text=corp", "<troupe><plan><job.yaml><--set><data.text=corpus.txt>");
  s.completes("troupe plan --format perf", "<troupe><plan><--format><perfetto>");
  s.completes("troupe train a\\ f", "<troupe><train><a file.yaml>");
}

}  // namespace

BOOST_AUTO_TEST_CASE(commands_options_files_and_keys_are_offered_in_their_places) {
  const command_folder at;
  const auto commands = suggested(at, {""});
  for (const char* one : {"train", "plan", "agent", "cert", "checkpoint", "init", "stop"})
    BOOST_TEST(has_word(commands, one), one);
  BOOST_TEST(!has_word(commands, "job.yaml"));
  BOOST_TEST(has_word(suggested(at, {"train", ""}), "job.yaml"));
  BOOST_TEST(!has_word(suggested(at, {"train", "job.yaml", ""}), "job.yaml"));
  BOOST_TEST(has_word(suggested(at, {"train", "job.yaml", "--"}), "--resume"));
  BOOST_TEST(has_word(suggested(at, {"train", "--resume", ""}), "job.yaml"));
  BOOST_TEST(!has_word(suggested(at, {"train", "--fresh", "--"}), "--fresh"));
  BOOST_TEST(has_word(suggested(at, {"train", "--set", "a=1", "--"}), "--set"));
  BOOST_TEST(suggested(at, {"train", "--steps", ""}).empty());
  BOOST_TEST(has_word(suggested(at, {"doctor", "--"}), "--cluster"));
  BOOST_TEST(has_word(suggested(at, {"cert", "issue", "--"}), "--days"));
  BOOST_TEST(has_word(suggested(at, {"plan", "--format=su"}), "--format=summary"));
  BOOST_TEST(has_word(suggested(at, {"data", "inspect", "--dtype", ""}), "uint32"));
  for (const char* command : {"tokenize", "inspect"})  // the argument of these commands is a word or a file
    for (const char* value : {"bytes", "job.yaml"})
      BOOST_TEST(has_word(suggested(at, {"data", command, "--tokenizer", ""}), value));
  BOOST_TEST(has_word(suggested(at, {"plan", "--set", ""}), "zero_optimization."));
  BOOST_TEST(has_word(suggested(at, {"plan", "--set", "zero_optimization.stage="}), "zero_optimization.stage=3"));
  BOOST_TEST(has_word(suggested(at, {"plan", "--set", "fp16.enabled="}), "fp16.enabled=true"));
  BOOST_TEST(suggested(at, {"plan", "--set", "no_such."}).empty());
  BOOST_TEST(has_word(suggested(at, {"checkpoint", "to-gguf", "--type", "q4_"}), "q4_k_m"));
  BOOST_TEST(has_word(suggested(at, {"compress", "--to", "gguf:q8"}), "gguf:q8_0"));
  BOOST_TEST(has_word(suggested(at, {"compress", "--to", ""}), "compressed-tensors:nvfp4"));
  for (const char* one : {"1f1b", "search", "job.yaml"})
    BOOST_TEST(has_word(suggested(at, {"schedule", ""}), one), one);
  for (const char* one : {"--fault", "--hardware", "--html", "--ranks", "--seed", "--set", "--trace"})
    BOOST_TEST(has_word(suggested(at, {"simulate", "--"}), one), one);
  for (const char* command : {"plan", "analyse"})
    BOOST_TEST(has_word(suggested(at, {command, "--"}), "--html"), command);
  BOOST_TEST(has_word(suggested(at, {"analyse", "--"}), "--predicted"));
  BOOST_TEST(has_word(suggested(at, {"simulate", ""}), "job.yaml"));
  BOOST_TEST(suggested(at, {"simulate", "--fault", ""}).empty());
  BOOST_TEST(suggested(at, {"no such command", "--"}).size() > 0U);
}

BOOST_AUTO_TEST_CASE(launch_offers_its_own_options_and_behind_them_what_train_takes) {
  const command_folder at;
  for (const char* one : {"--hostfile", "--ssh-option", "--resume", "--set"})
    BOOST_TEST(has_word(suggested(at, {"launch", "--"}), one), one);
  BOOST_TEST(has_word(suggested(at, {"launch", "--hostfile", ""}), "job.yaml"));
  const std::vector<std::string> begun{"launch", "--hostfile", "hosts"};
  const auto behind = [&](std::vector<std::string> more) {
    more.insert(more.begin(), begun.begin(), begun.end());
    return suggested(at, more);
  };
  BOOST_TEST(has_word(behind({""}), "job.yaml"));
  BOOST_TEST(has_word(behind({"job.yaml", "--set", "zero_optimization.stage="}), "zero_optimization.stage=3"));
  BOOST_TEST(!has_word(behind({"job.yaml", "--fresh", "--"}), "--fresh"));
}

BOOST_AUTO_TEST_CASE(bash_completes) {
  if (!has_program("bash")) return;
  command_folder at;
  at.folder.write("a file.yaml", "");
  shell s({"bash", "--norc", "--noprofile", "-i"},
          "PS1='$ '; bind 'set enable-bracketed-paste off'; source <(troupe completion bash)", at);
  completes_all(s);
}

BOOST_AUTO_TEST_CASE(zsh_completes) {
  if (!has_program("zsh")) return;
  command_folder at;
  at.folder.write("a file.yaml", "");
  shell s({"zsh", "-f", "-i"},
          "PS1='$ '; bindkey -e; autoload -Uz compinit; compinit -D -u; unset zle_bracketed_paste; source <(troupe "
          "completion zsh)",
          at);
  completes_all(s);
}

BOOST_AUTO_TEST_CASE(fish_reads_its_script_and_offers_the_same) {
  if (!has_program("fish")) return;
  const command_folder at;
  const std::string path = fs::path(troupe::places::troupe_binary).parent_path().string() + ":" + std::getenv("PATH");
  const auto did = run({"/usr/bin/env", "fish", "--no-config", "-c",
                        "troupe completion fish | source; complete -C 'troupe plan job.yaml --set fp16.enabled='; "
                        "complete -C 'troupe sche'; complete -C 'troupe train '"},
                       at.folder.path(), [&] { ::setenv("PATH", path.c_str(), 1); });
  for (const char* one : {"fp16.enabled=true\n", "schedule\t", "job.yaml\n"})
    BOOST_TEST(has(did.out, one), did.out << did.err);
}

BOOST_AUTO_TEST_CASE(the_manual_has_a_page_of_every_command_and_one_of_the_keys) {
  const command_folder at;
  BOOST_TEST(at.troupe({"man", "pages"}).code == 0);
  const fs::path pages = at.folder / "pages";
  for (const char* one :
       {"troupe.1", "troupe-train.1", "troupe-cert-issue.1", "troupe-agent.1", "troupe-checkpoint-to-fp32.1"})
    BOOST_TEST(fs::exists(pages / "man1" / one), one);
  const std::string train = scratch_folder::read(pages / "man1/troupe-train.1");
  for (const char* part : {".SH NAME", "\\-\\-resume", ".SH EXAMPLE", ".SH \"EXIT STATUS\""})
    BOOST_TEST(has(train, part), part);
  BOOST_TEST(has(scratch_folder::read(pages / "man5/troupe.5"), "zero_optimization.offload_param"));
  BOOST_TEST(at.troupe({"man", "job.yaml"}).code == 2);
  if (!has_program("man")) return;
  for (const auto& entry : fs::recursive_directory_iterator(pages)) {
    if (!entry.is_regular_file()) continue;
    const auto shown =
        check_exit(0, run({"/usr/bin/env", "man", "--warnings=mac", "-l", entry.path().string()}, at.folder.path()));
    BOOST_TEST(shown.err.empty(), entry.path() << ": " << shown.err);
    BOOST_TEST(has(shown.out, "NAME"));
  }
}

BOOST_AUTO_TEST_CASE(a_shell_without_a_script_is_refused_with_those_that_have_one) {
  const command_folder at;
  const auto did = check_exit(2, at.troupe({"completion", "tcsh"}));
  BOOST_TEST(has(did.err, "{bash,zsh,fish}"), did.err);
}

BOOST_AUTO_TEST_SUITE_END()
