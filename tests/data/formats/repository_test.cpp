// Tests which files of a data set's repository are trained on.
#include "data/formats/repository.hpp"

#include <filesystem>

#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string json_line = "{\"text\": \"a\"}\n";

struct listed_names {
  std::vector<std::string> files, left_out;
};

/// A folder `in` with these files; each file contains one line of JSON, whatever its name.
class made_repository {
 public:
  explicit made_repository(const std::vector<std::string>& names, const std::string& card = "") {
    for (const auto& name : names) at_.write("in/" + name, json_line);
    if (!card.empty()) at_.write("in/README.md", "---\n" + card + "---\n# A data set\n");
  }
  [[nodiscard]] core::result<listed_names> list() const {
    const auto found = data::source_files(at_ / "in");
    if (!found) return core::fail(found.error());
    listed_names out;
    const auto name = [&](const std::filesystem::path& p) { return std::filesystem::relative(p, at_ / "in").string(); };
    for (const auto& p : found->files) out.files.push_back(name(p));
    for (const auto& x : found->left_out) out.left_out.push_back(name(x.path) + ": " + x.why);
    return out;
  }
  void check(const std::vector<std::string>& files, const std::vector<std::string>& left_out) const {
    const auto got = list();
    BOOST_REQUIRE_MESSAGE(got, got.error().text);
    BOOST_TEST(got->files == files, boost::test_tools::per_element());
    BOOST_TEST(got->left_out == left_out, boost::test_tools::per_element());
  }
  void check_refused(const std::string& words) const {
    const auto got = list();
    BOOST_REQUIRE(!got);
    BOOST_TEST(got.error().text.find(words) != std::string::npos, got.error().text);
  }

 private:
  scratch_folder at_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(repository)

BOOST_AUTO_TEST_CASE(a_clone_of_the_hub_is_its_train_split) {
  made_repository({".gitattributes", "README.md", "LICENSE", "dataset_infos.json", "data/train-00000-of-00001.parquet",
                   "data/test-00000-of-00001.parquet"})
      .check({"data/train-00000-of-00001.parquet"},
             {"LICENSE: card or licence", "README.md: card or licence", "dataset_infos.json: describes the data",
              "data/test-00000-of-00001.parquet: split test"});
}

BOOST_AUTO_TEST_CASE(splits_are_named_by_folders_and_files) {
  made_repository({"train/a.jsonl", "train/b.jsonl", "validation/a.jsonl"})
      .check({"train/a.jsonl", "train/b.jsonl"}, {"validation/a.jsonl: split validation"});
  made_repository({"en_train.jsonl", "en-dev.jsonl", "extra.jsonl"})
      .check({"en_train.jsonl"}, {"en-dev.jsonl: split dev", "extra.jsonl: of no split"});
  made_repository({"a.jsonl", "latest.jsonl", "retrieval.jsonl"})
      .check({"a.jsonl", "latest.jsonl", "retrieval.jsonl"}, {});
  made_repository({"test.jsonl", "val.jsonl"})
      .check_refused("holds the splits test, val of a data set but none for training");
  made_repository({"data/train_sft-00000-of-00001.parquet", "data/train_gen-00000-of-00001.parquet"})
      .check_refused(
          "holds the splits train_gen, train_sft of a data set: name the files or the folder of one of them");
}

BOOST_AUTO_TEST_CASE(folders_of_texts_are_read_whole) {
  made_repository({"README.md", "LICENSE", "test/a.txt", "train/b.txt"})
      .check({"LICENSE", "README.md", "test/a.txt", "train/b.txt"}, {});
}

BOOST_AUTO_TEST_CASE(texts_that_all_name_their_splits_are_the_train_split) {
  made_repository({"wiki.train.raw", "wiki.test.raw", "wiki.valid.raw"})
      .check({"wiki.train.raw"}, {"wiki.test.raw: split test", "wiki.valid.raw: split valid"});
  made_repository({"train/a.txt", "train/b.txt", "test/a.txt"})
      .check({"train/a.txt", "train/b.txt"}, {"test/a.txt: split test"});
  made_repository({"test_of_time.txt", "test_pilots.txt"}).check({"test_of_time.txt", "test_pilots.txt"}, {});
  made_repository({"train.txt", "test.txt", "letters.txt"}).check({"letters.txt", "test.txt", "train.txt"}, {});
}

BOOST_AUTO_TEST_CASE(texts_beside_a_card_have_splits) {
  made_repository({"train.txt", "test.txt"}, "license: mit\n")
      .check({"train.txt"}, {"README.md: card or licence", "test.txt: split test"});
}

BOOST_AUTO_TEST_CASE(the_card_says_which_files_are_trained_on) {
  const std::string files =
      "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: \"data/**/part-*\"\n"
      "  - split: test\n    path: [data/held/x.jsonl]\n";
  made_repository({"data/a/part-1.jsonl", "data/part-2.jsonl", "data/held/x.jsonl", "data/other.jsonl"}, files)
      .check({"data/a/part-1.jsonl", "data/part-2.jsonl"},
             {"README.md: card or licence", "data/held/x.jsonl: split test", "data/other.jsonl: of no split"});
  made_repository({"data/other.jsonl"}, files).check_refused("the data files that its README.md names do not exist");
  made_repository({"a.jsonl"}, "configs: [\n")
      .check_refused("which list the files to train on, cannot be read: line 2 of its metadata");
}

BOOST_AUTO_TEST_CASE(cards_are_read_as_people_write_them) {
  const std::vector<std::string> names = {"a/x.jsonl", "b/y.jsonl", "c.jsonl"};
  const std::vector<std::string> left_out = {"README.md: card or licence", "b/y.jsonl: split test",
                                             "c.jsonl: of no split"};
  for (
      const std::string card :
      {"license: mit\nconfigs:\n  - config_name: \"main\"   # the only one\n    data_files:\n    - split: train\n      "
       "path:\n      - 'a/*'\n      - \"z/*\"\n    - split: test\n      path: b/*\ntags:\n- text\n",
       "dataset_info:\n  features:\n  - name: text\n    dtype: string\nconfigs:\n-\n  description: >-\n    some words: "
       "more\n    of them\n  data_files:\n    -   path: \"a/x.jsonl\"\n        split: train\n    -   path: b/y.jsonl\n "
       "    "
       "   split: test\n"})
    made_repository(names, card).check({"a/x.jsonl"}, left_out);
  made_repository(names, "configs:\n- config_name: default\n  data_files: [a/*, \"c.jsonl\"]\n")
      .check({"a/x.jsonl", "c.jsonl"}, {"README.md: card or licence", "b/y.jsonl: of no split"});
  for (const std::string broken : {"configs:\n- config_name\n  data_files: a\n  - b\n",
                                   "configs:\n- data_files: [a,\n  b]\n", "configs:\n- a: 1\n b: 2\n"})
    made_repository(names, broken).check_refused("of its metadata is not understood");
  std::string deep = "configs:\n";
  for (int i = 0; i < 1000; ++i) deep += "- ";
  made_repository(names, deep + "a\n").check_refused("line 3 of its metadata is not understood");
}

BOOST_AUTO_TEST_CASE(several_configurations_are_refused_unless_one_is_the_default) {
  const auto card = [](const std::string& more) {
    return "configs:\n- config_name: en\n  data_dir: en\n- config_name: de\n  data_dir: de\n" + more;
  };
  made_repository({"en/a.jsonl", "de/a.jsonl"}, card(""))
      .check_refused("holds the configurations en, de of a data set");
  made_repository({"en/a.jsonl", "de/a.jsonl"}, card("  default: true\n"))
      .check({"de/a.jsonl"}, {"README.md: card or licence", "en/a.jsonl: another configuration"});
}

BOOST_AUTO_TEST_CASE(a_data_set_in_several_forms_is_refused) {
  made_repository({".gitattributes", "train.jsonl", "train.parquet"})
      .check_refused("holds a data set in several forms");
}

BOOST_AUTO_TEST_CASE(a_long_pattern_costs_no_more_than_its_length) {
  std::string pattern;
  for (int i = 0; i < 2000; ++i) pattern += "*a";
  made_repository({std::string(200, 'a') + ".jsonl"},
                  "configs:\n- data_files: \"" + pattern + "b\"\n  config_name: default\n")
      .check_refused("do not exist");
}

BOOST_AUTO_TEST_CASE(a_run_says_what_it_read_and_left_out) {
  const scratch_folder at;
  for (const char* name :
       {"in/.gitattributes", "in/README.md", "in/train/1.jsonl", "in/train/2.jsonl", "in/test.jsonl"})
    at.write(name, json_line + json_line);
  const auto stream = opened({.path = at / "in"});
  BOOST_TEST(data::sentence_of(stream->summary(), "in") ==
             "'in': 4 documents, 4 tokens, 56 bytes in 2 files, train/1.jsonl to train/2.jsonl; there is no "
             "end-of-text token between the documents; left out: README.md (card or licence), test.jsonl (split test)");
  const auto one = opened({.path = at.write("a.txt", "abc")});
  BOOST_TEST(data::sentence_of(one->summary(), "a.txt") == "'a.txt': 1 document, 3 tokens, 3 bytes in a.txt");
}

BOOST_AUTO_TEST_SUITE_END()
