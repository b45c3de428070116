// Tests which files in the repository of a data set are used for training.
#include "data/formats/folder_files.hpp"

#include <filesystem>

#include "data/formats/card.hpp"
#include "tests/data/text.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string json_line = "{\"text\": \"a\"}\n";

struct listed_names {
  std::vector<std::string> files, left_out;
};

/// A folder `in` with the given files, each of which contains one line of JSON, whatever its name.
class made_repository {
 public:
  explicit made_repository(const std::vector<std::string>& names, const std::string& card = "",
                           const std::string& page = "") {
    for (const auto& name : names) at_.write("in/" + name, json_line);
    if (!card.empty()) at_.write("in/README.md", "---\n" + card + "---\n# A data set\n" + page);
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
  made_repository({"README.md", "LICENSE", "tests/a.txt", "trains/b.txt"})
      .check({"LICENSE", "README.md", "tests/a.txt", "trains/b.txt"}, {});
}

BOOST_AUTO_TEST_CASE(texts_that_all_name_their_splits_are_the_train_split) {
  made_repository({"wiki.train.raw", "wiki.test.raw", "wiki.valid.raw"})
      .check({"wiki.train.raw"}, {"wiki.test.raw: split test", "wiki.valid.raw: split valid"});
  made_repository({"train/a.txt", "train/b.txt", "test/a.txt"})
      .check({"train/a.txt", "train/b.txt"}, {"test/a.txt: split test"});
  made_repository({"test_of_time.txt", "test_pilots.txt"}).check({"test_of_time.txt", "test_pilots.txt"}, {});
  made_repository({"train.txt", "test.txt", "letters.txt"}).check({"letters.txt", "test.txt", "train.txt"}, {});
  made_repository({"README.md", "LICENSE", "test/a.txt", "train/b.txt"})
      .check({"train/b.txt"}, {"LICENSE: card or licence", "README.md: card or licence", "test/a.txt: split test"});
  made_repository({"README", "LICENSE.txt", "ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"})
      .check({"ptb.train.txt"}, {"LICENSE.txt: card or licence", "README: card or licence", "ptb.test.txt: split test",
                                 "ptb.valid.txt: split valid"});
}

BOOST_AUTO_TEST_CASE(missing_shards_are_told) {
  made_repository({"data/train-00000-of-00003.jsonl", "data/train-00002-of-00003.jsonl"})
      .check({"data/train-00000-of-00003.jsonl", "data/train-00002-of-00003.jsonl"},
             {"data/train-00001-of-00003.jsonl: missing: 2 of 3 shards of train are there"});
  made_repository({"c4-train.00001-of-01024.json.gz"})
      .check({"c4-train.00001-of-01024.json.gz"},
             {"c4-train.00000-of-01024.json.gz: missing: 1 of 1024 shards of c4-train are there"});
  made_repository({"a-1-of-2.jsonl", "a-2-of-2.jsonl", "b-0-of-2.jsonl", "b-1-of-2.jsonl", "one-of-many.jsonl"})
      .check({"a-1-of-2.jsonl", "a-2-of-2.jsonl", "b-0-of-2.jsonl", "b-1-of-2.jsonl", "one-of-many.jsonl"}, {});
}

BOOST_AUTO_TEST_CASE(backups_and_unfinished_copies_are_left_out) {
  made_repository({"a.jsonl", "a.jsonl~", "a.jsonl.bak", "a.jsonl.TMP", "b.jsonl.part", "a.jsonl.1", "a.jsonl.old"})
      .check({"a.jsonl"}, {"a.jsonl.1: older copy of a.jsonl", "a.jsonl.TMP: backup or unfinished copy",
                           "a.jsonl.bak: backup or unfinished copy", "a.jsonl.old: older copy of a.jsonl",
                           "a.jsonl~: backup or unfinished copy", "b.jsonl.part: backup or unfinished copy"});
  made_repository({"ls.1", "gcc.1"}).check({"gcc.1", "ls.1"}, {});
  made_repository({"a.jsonl.part"})
      .check_refused("has no file to train on: all are left out, such as 'a.jsonl.part' (backup or unfinished copy)");
}

BOOST_AUTO_TEST_CASE(files_next_to_rows_that_are_not_data_are_left_out) {
  made_repository({"a.jsonl", "_committed_12", "_temporary/0/a.jsonl", ".b.jsonl", ".c.crc", "SHA256SUMS",
                   "md5sums.txt", "a.jsonl.sha256", "download.log", "notes.txt"})
      .check({"a.jsonl", "notes.txt"},
             {".b.jsonl: hidden", "SHA256SUMS: checksums", "_committed_12: a name with an underscore, next to rows",
              "_temporary/0/a.jsonl: a name with an underscore, next to rows", "a.jsonl.sha256: checksums",
              "download.log: log", "md5sums.txt: checksums"});
  made_repository({"_rows/a.jsonl"}).check({"_rows/a.jsonl"}, {});
  made_repository({"__init__.py", "a.log", "b.py"}).check({"__init__.py", "a.log", "b.py"}, {});
}

BOOST_AUTO_TEST_CASE(one_file_in_two_forms_is_refused) {
  for (const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl", "a.jsonl.gz"}, {"a.txt.gz", "a.txt.zst"}, {"a.tar", "a.tgz"}, {"d/a.txt", "d/a.txt.dz"}})
    made_repository({one, other}).check_refused(other + "' look like one file in two forms");
  made_repository({"a.jsonl", "b.jsonl.gz", "d/a.jsonl.gz"}).check({"a.jsonl", "b.jsonl.gz", "d/a.jsonl.gz"}, {});
  made_repository({"train.jsonl", "test.jsonl", "test.jsonl.gz"})
      .check({"train.jsonl"}, {"test.jsonl: split test", "test.jsonl.gz: split test"});
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

BOOST_AUTO_TEST_CASE(a_card_is_read_before_a_page_of_any_length) {
  const std::vector<std::string> names{"a.jsonl", "b.jsonl"};
  const std::string card = "configs:\n- config_name: default\n  data_files: a.jsonl\n";
  const std::string page(data::max_card_bytes, 'x');
  made_repository(names, card, page).check({"a.jsonl"}, {"README.md: card or licence", "b.jsonl: of no split"});
  made_repository(names, card + "other: " + page + "\n")
      .check_refused(
          "README.md': its metadata, which may list the files to train on, have no end within 1048576 bytes");
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

BOOST_AUTO_TEST_CASE(configurations_are_read_whatever_their_form_of_yaml) {
  const std::vector<std::string> names = {"a.jsonl", "b.jsonl", "test.jsonl"};
  const std::vector<std::string> left_out = {"README.md: card or licence", "b.jsonl: of no split",
                                             "test.jsonl: split test"};
  for (const std::string card :
       {"configs:\n- {config_name: default, data_files: [{split: train, path: a.jsonl}, {split: test, path: "
        "[\"test.jsonl\"]}]}\n",
        "configs: [{config_name: default, data_files: [{split: train, path: 'a.jsonl'}, {path: test.jsonl, split: "
        "test}]}]  # 'one\n",
        "\"configs\" :\n- 'config_name': default\n  \"data_files\":\n  - split: train\n    path: \"a.jsonl\" # it's # "
        "one\n  - {\"split\": test, \"path\": test.jsonl}\n"})
    made_repository(names, card).check({"a.jsonl"}, left_out);
  made_repository({"it's #1.jsonl", "b.jsonl"}, "configs:\n- data_files: 'it''s #1.jsonl'\n")
      .check({"it's #1.jsonl"}, {"README.md: card or licence", "b.jsonl: of no split"});
  made_repository({"train.jsonl", "test.jsonl"}, "configs:\n- config_name: default\n  data_dir:\n  data_files:\n")
      .check({"train.jsonl"}, {"README.md: card or licence", "test.jsonl: split test"});
  for (const auto& [card, words] : std::vector<std::pair<std::string, std::string>>{
           {"configs:\n- data_files: &files a.jsonl\n", "wanted one line of text under data_files"},
           {"configs:\n- data_files: \"a\\x2Ejsonl\"\n", "wanted one line of text under data_files"},
           {"configs:\n- data_files: >-\n    a.jsonl\n", "wanted one line of text under data_files"},
           {"configs:\n- data_files: a\n    b\n", "wanted one line of text under data_files"},
           {"configs:\n- data_files: \"a.jsonl\n", "wanted one line of text under data_files"},
           {"configs:\n- data_files: {train: a.jsonl}\n", "wanted one line of text under data_files"},
           {"configs:\n- data_files:\n  - split: train\n", "wanted a split and a path in each item"},
           {"configs:\n- data_files: a.jsonl\n  default: *on\n", "aliases are not read"},
           {"configs:\n- <<: *base\n  data_files: a.jsonl\n", "aliases are not read"},
           {"configs: {config_name: default, data_files: a.jsonl}\n", "wanted a list of configurations"},
           {"configs: a.jsonl\n", "wanted a list of configurations"},
           {"configs:\n- a.jsonl\n", "wanted a list of configurations"},
           {"configs:\n- {data_files: a.jsonl\n", "line 3 of its metadata is not understood"},
           {"configs:\n- {data_files: [a.jsonl] b}\n", "line 3 of its metadata is not understood"},
           {"{configs: [{data_files: a.jsonl}]}\n", "wanted them under a key"}})
    made_repository(names, card).check_refused(words);
  std::string deep = "configs: ";
  for (int i = 0; i < 1000; ++i) deep += "[";
  made_repository(names, deep + "\n").check_refused("line 2 of its metadata is not understood");
}

BOOST_AUTO_TEST_CASE(patterns_of_a_card_match_as_file_names_do_in_python) {
  const auto train = [](const std::string& pattern) { return "configs:\n- data_files: \"" + pattern + "\"\n"; };
  const std::vector<std::string> names = {"d/p-0.jsonl", "d/p-8.jsonl", "d/p-].jsonl", "d/p-x.jsonl"};
  for (const auto& [pattern, wanted] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"d/p-[0-7].jsonl", {"d/p-0.jsonl"}},
           {"d/p-[89x].jsonl", {"d/p-8.jsonl", "d/p-x.jsonl"}},
           {"d/p-[!0-9].jsonl", {"d/p-].jsonl", "d/p-x.jsonl"}},
           {"d/p-[]].jsonl", {"d/p-].jsonl"}},
           {"d/p-[!]x].jsonl", {"d/p-0.jsonl", "d/p-8.jsonl"}},
           {"?/p-[a-z-].*", {"d/p-x.jsonl"}},
           {"./d//p-0.jsonl", {"d/p-0.jsonl"}}}) {
    const auto got = made_repository(names, train(pattern)).list();
    BOOST_REQUIRE_MESSAGE(got, got.error().text);
    BOOST_TEST(got->files == wanted, boost::test_tools::per_element());
  }
  for (const char* pattern : {"d[/]p-0.jsonl", "d/p-[.jsonl", "d/{p-0,p-8}.jsonl"})
    made_repository(names, train(pattern)).check_refused("do not exist");
}

BOOST_AUTO_TEST_CASE(data_files_of_a_card_that_do_not_exist_are_named) {
  const std::string files =
      "configs:\n- data_files:\n  - split: train\n    path: [a.jsonl, b.jsonl]\n  - split: test\n"
      "    path: t.jsonl\n";
  made_repository({"a.jsonl", "t.jsonl"}, files).check_refused("do not exist: nothing is named 'b.jsonl': copy");
  made_repository({"a.jsonl", "b.jsonl"}, files).check({"a.jsonl", "b.jsonl"}, {"README.md: card or licence"});
  made_repository({"a.jsonl"}, "configs:\n- data_dir: en/\n").check_refused("nothing is named 'en'");
}

BOOST_AUTO_TEST_CASE(a_card_without_a_split_for_training_is_refused) {
  const auto split = [](const std::string& name) {
    return "configs:\n- data_files:\n  - split: " + name + "\n    path: a.jsonl\n";
  };
  made_repository({"a.jsonl"}, split("test"))
      .check_refused("holds the splits test of a data set but none for training");
  made_repository({"a.jsonl"}, split("validation")).check_refused("none for training");
  made_repository({"a.jsonl"}, split("english")).check({"a.jsonl"}, {"README.md: card or licence"});
}

BOOST_AUTO_TEST_CASE(only_keys_of_cards_make_a_card) {
  for (const std::string page : {"title: Home\n", "tags: [a]\naliases:\n- b\n", "some words\n"})
    made_repository({"evaluation.md", "intro.md", "training.md"}, page)
        .check({"README.md", "evaluation.md", "intro.md", "training.md"}, {});
  for (const std::string card : {"language:\n- en\n", "pretty_name: A\n", "'license': mit\n"})
    made_repository({"train.txt", "notes.txt"}, card)
        .check({"train.txt"}, {"README.md: card or licence", "notes.txt: of no split"});
}

BOOST_AUTO_TEST_CASE(several_configurations_are_refused_unless_one_is_the_default) {
  const auto card = [](const std::string& more) {
    return "configs:\n- config_name: en\n  data_dir: en\n- config_name: de\n  data_dir: de\n" + more;
  };
  made_repository({"en/a.jsonl", "de/a.jsonl"}, card(""))
      .check_refused("holds the configurations en, de of a data set");
  made_repository({"en/a.jsonl", "de/a.jsonl"}, card("  default: true\n"))
      .check({"de/a.jsonl"}, {"README.md: card or licence", "en/a.jsonl: another configuration"});
  made_repository({"en/a.jsonl", "de/a.jsonl"},
                  "configs:\n- config_name: en\n  data_dir: ./en/\n  default: True\n"
                  "- config_name: de\n  data_dir: de\n")
      .check({"en/a.jsonl"}, {"README.md: card or licence", "de/a.jsonl: another configuration"});
  made_repository({"en/a.jsonl", "de/a.jsonl"},
                  "configs:\n- config_name: default\n  data_dir: en\n- config_name: de\n"
                  "  data_dir: de\n  default: yes\n")
      .check_refused("holds the default configurations default, de of a data set");
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
