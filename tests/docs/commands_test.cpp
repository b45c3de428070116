// Runs the commands that the pages ask a reader to type: each page in a folder of its own, its blocks in order. Job
// files are checked, or saved if the page names a file for them; commands are run, and their output is compared with
// the page's, except for measured times and rates.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/docs/pages.hpp"
#include "tests/made_up_text.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(commands)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

/// Blocks that are not run, by page and first line; the page states the reason in <!-- not run: ... -->.
const std::set<std::string> not_run = {
    "README.md: make train",
    "README.md: troupe init --from Qwen3-0.6B/ job.yaml",
    "docs/install.md: apt-get install",
    "docs/install.md: cp -r",
    "docs/install.md: make package",
    "docs/embedding.md: apt-get install",
    "docs/install.md: make build DEVICE=cuda",
    "docs/install.md: pip install --no-deps --target",
    "docs/install.md: make wheel",
    "docs/install.md: venv/bin/pip install 'troupe[train]'",
    "docs/install.md: venv/bin/pip install --no-deps torch",
    "docs/storage.md: troupe io bench",
};

/// Preparations that a page assumes, as a shell command in its folder.
const std::map<std::string, std::string> beforehand = {
    {"docs/checkpoints.md",
     "cp examples/smallest.yaml job.yaml && cp examples/corpus.txt . && "
     "troupe train job.yaml --steps 2 --set output=before --set checkpoint.every_steps=2 --quiet && "
     "mkdir -p path/to && troupe checkpoint to-deepspeed before path/to/deepspeed_folder --stage 1 --ranks 2 --quiet "
     "&& "
     // The shell command makes a checkpoint with a flipped byte.
     "cp -r before/checkpoints ck && cd ck/step-00000002 && "
     "printf x | dd of=shard-00000.bin bs=1 seek=4096 conv=notrunc status=none"},
    {"docs/compression.md", R"(mkdir gpt2-folder && printf '{"model_type": "gpt2"}' > gpt2-folder/config.json)"},
    {"docs/data.md",
     "mkdir books && cp examples/corpus.txt books/one.txt && "
     "printf '{\"content\": \"A page.\"}\\n{\"content\": \"Another.\"}\\n' | gzip > web.jsonl.gz && "
     "troupe data tokenize books --tokenizer tokenizers/gpt2 --output code.bin --quiet"},
    {"docs/deepspeed.md", "troupe data tokenize corpus.txt --tokenizer tokenizers/gpt2 --output tokens.bin --quiet"},
    // A tiny model stands where the page's script puts the one that it fetches.
    {"docs/finetuning.md",
     "mkdir runs && mv chat_model runs/smollm2 && cp examples/keeper.jsonl messages.jsonl && "
     "mkdir books && cp examples/corpus.txt books/one.txt && "
     "sed -i 's/_position_embeddings\": 128/_position_embeddings\": 256/' runs/smollm2/config.json"},
};

/// Owns a reader's folder for one page: the examples, made smaller, and data to train on.
class reader {
 public:
  explicit reader(const std::string& page) {
    const fs::path source = troupe::places::source_dir;
    for (const auto& entry : fs::directory_iterator(source / "examples"))
      if (entry.is_regular_file()) copy_example(entry.path());
    folder_.write("corpus.txt", made_up_text(20000));
    fs::create_directories(folder_ / "tokenizers");
    fs::copy(source / "tests/data/fixtures/gpt2", folder_ / "tokenizers/gpt2", fs::copy_options::recursive);
    fs::copy(source / "tests/data/fixtures/chat/model", folder_ / "chat_model", fs::copy_options::recursive);
    if (const auto first = beforehand.find(page); first != beforehand.end()) {
      const auto did = type(first->second);
      BOOST_TEST_REQUIRE(did.code == 0, page << ": " << did.out);
    }
  }

  /// Runs a shell command; `out` of the result contains stdout and stderr.
  [[nodiscard]] finished type(const std::string& command) const {
    const std::string path = fs::path(troupe::places::troupe_binary).parent_path().string() + ":" + std::getenv("PATH");
    return run({"/bin/sh", "-c", "exec 2>&1\n" + command}, folder_.path(), [&] { ::setenv("PATH", path.c_str(), 1); });
  }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  [[nodiscard]] std::string read(const std::string& name) const { return scratch_folder::read(folder_ / name); }

 private:
  /// Copies an example and limits it to two steps: two steps with files on disk test as much as twenty.
  void copy_example(const fs::path& file) {
    auto text = scratch_folder::read(file);
    text = std::regex_replace(text, std::regex("/var/tmp/troupe"), "../nvme");
    if (file.filename() == "beyond_memory.yaml") text = std::regex_replace(text, std::regex("steps: 20"), "steps: 2");
    folder_.write("examples/" + file.filename().string(), text);
  }

  scratch_folder folder_;
};

/// Returns a section of a job file as a complete job file: missing keys come from the smallest example.
std::string completed(const std::string& yaml, const std::string& smallest) {
  const auto key_of = [](const std::string& line) { return line.substr(0, line.find(':')); };
  std::set<std::string> given;
  std::string out = yaml, line;
  for (std::istringstream in(yaml); std::getline(in, line);)
    if (!line.empty() && line[0] != ' ' && line[0] != '#') given.insert(key_of(line));
  for (std::istringstream in(smallest); std::getline(in, line);)
    if (!given.contains(key_of(line))) out += line + "\n";
  return out;
}

/// Returns a line without measured values and without spaces at its end.
std::string comparable(const std::string& line) {
  static const std::regex measured("[0-9.]+ (s|ms|us|MiB/s|GiB/s|GB/s|tok/s)\\b");
  const std::string text = std::regex_replace(line, measured, "# $1");
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

/// Returns the first difference; empty if `shown` equals `printed`. "..." in `shown` stands for any number of lines.
std::string difference(const std::vector<std::string>& shown, const std::string& printed) {
  std::istringstream in(printed);
  std::string line;
  bool any = false;
  for (const auto& wanted : shown) {
    if (wanted == "...") {
      any = true;
      continue;
    }
    bool found = false;
    while (!found && std::getline(in, line)) {
      found = comparable(line) == comparable(wanted);
      if (!found && !any) return "the page has '" + wanted + "' where '" + line + "' is printed";
    }
    if (!found) return "'" + wanted + "' is not printed";
    any = false;
  }
  return any || !std::getline(in, line) ? "" : "'" + line + "' is printed too";
}

void check_sh(const reader& r, const block& b) {
  for (const auto& line : b.lines) {
    const auto did = r.type(line);
    BOOST_TEST(did.code == 0, b.place() << ": " << line << ": " << did.out);
  }
}

/// Checks a console block: lines after "$ " are commands, and the lines below a command are its output.
void check_console(const reader& r, const block& b) {
  for (auto line = b.lines.begin(); line != b.lines.end();) {
    BOOST_TEST_REQUIRE(line->starts_with("$ "), b.place() << ": no command prints '" << *line << "'");
    const auto end = std::find_if(line + 1, b.lines.end(), [](const auto& l) { return l.starts_with("$ "); });
    const auto did = r.type(line->substr(2));
    const auto differs = difference({line + 1, end}, did.out);
    BOOST_TEST(differs.empty(), b.place() << ": " << *line << ": " << differs << "\nall of it:\n"
                                          << did.out.substr(0, 4000));
    line = end;
  }
}

void check_yaml(const reader& r, const block& b) {
  if (const auto file = b.marks.find("file"); file != b.marks.end()) {
    r.write(file->second, b.text());  // later commands of the page read this file
    return;
  }
  // The samples are parts of longer runs than the smallest one.
  const auto rest =
      std::regex_replace(r.read("examples/smallest.yaml"), std::regex("\nsteps: 100\n"), "\nsteps: 100000\n");
  r.write("sample.yaml", completed(b.text(), rest));
  const auto did = r.type("troupe config check sample.yaml");
  BOOST_TEST(did.out == "sample.yaml: good\n", b.place() << ": " << did.out);  // the output contains no warning
}

}  // namespace

BOOST_AUTO_TEST_CASE(commands_and_topologies_on_the_pages_do_what_the_pages_say) {
  std::set<std::string> left_out;
  for (const auto& page : pages()) {
    auto blocks = blocks_of(page);
    std::erase_if(blocks,
                  [](const block& b) { return b.language == "cpp" || b.language == "cmake" || b.language == "text"; });
    if (blocks.empty()) continue;
    const reader r(page);
    for (const auto& b : blocks) {
      if (b.marks.contains("not run")) {
        BOOST_TEST(!b.marks.at("not run").empty(), b.place() << " does not say why");
        left_out.insert(page + ": " + b.lines.front());
      } else if (b.language == "sh") {
        check_sh(r, b);
      } else if (b.language == "console") {
        check_console(r, b);
      } else {
        check_yaml(r, b);
      }
    }
  }
  BOOST_TEST(left_out.size() == not_run.size());
  for (const auto& name : left_out) {
    const auto known = [&](const std::string& start) { return name.starts_with(start); };
    BOOST_TEST(std::ranges::any_of(not_run, known), name << " is not run, and this test does not know");
  }
}

BOOST_AUTO_TEST_CASE(options_that_the_pages_name_exist) {
  const reader r("none");
  std::map<std::string, std::string> help;
  for (const auto& page : pages())
    for (const auto& code : inline_code_of(page)) {
      std::istringstream words(code);
      std::string word, command;
      if (!(words >> word) || word != "troupe") continue;
      while (words >> word) {
        if (word.starts_with("--")) {
          if (!help.contains(command)) help[command] = r.type("troupe" + command + " --help").out;
          BOOST_TEST(help[command].find(word) != std::string::npos, page << ": " << code);
        } else if (std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; })) {
          const auto did = r.type("troupe" + command + " " + word + " --help");
          BOOST_TEST(did.code == 0, page << ": " << code << ": " << did.out);
          command += " " + word;
        } else {
          break;  // the word is an argument, not a subcommand
        }
      }
    }
  BOOST_TEST(help.size() > 2U);
}

BOOST_AUTO_TEST_SUITE_END()
