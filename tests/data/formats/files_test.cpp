// Tests which files of a folder are read, and files that contain no text.
#include "data/formats/files.hpp"

#include <filesystem>

#include "tests/data/formats/foreign.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(files)

using namespace troupe;
using namespace troupe::tests;
using namespace std::string_literals;

BOOST_AUTO_TEST_CASE(what_is_hidden_or_lies_beside_rows_is_passed_over) {
  const scratch_folder at;
  for (const char* name : {"in/b.txt", "in/a.txt", "in/.hidden", "in/.git/config", "in/.part-0.parquet.crc",
                           "in/_SUCCESS", "in/_metadata", "in/_common_metadata", "in/of/_metadata", "in/of/_c.txt"})
    at.write(name, "text");
  std::vector<std::string> read;
  const auto found = data::source_files(at / "in");
  BOOST_REQUIRE(found.has_value());
  for (const auto& p : found->files) read.push_back(std::filesystem::relative(p, at / "in").string());
  BOOST_TEST(read == (std::vector<std::string>{"a.txt", "b.txt", "of/_c.txt"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(links_of_hugging_faces_cache_are_read_and_others_that_lead_out_are_not) {
  const scratch_folder at;
  at.write("hub/blobs/0123", content_of(foreign_path("plain_none.parquet")));
  at.write("secret", "secret");
  std::filesystem::create_directories(at / "hub/snapshots/abc/data");
  std::filesystem::create_symlink("../../../blobs/0123", at / "hub/snapshots/abc/data/train.parquet");
  for (const char* folder : {"hub/snapshots/abc", "hub/snapshots/abc/data"}) {
    BOOST_TEST_INFO_SCOPE(folder);
    const auto found = data::source_files(at / folder);
    BOOST_REQUIRE_MESSAGE(found.has_value(), found.error().text);
    BOOST_TEST(found->files.size() == 1U);
    BOOST_TEST(found->files.front().filename() == "train.parquet");
  }
  BOOST_TEST(opened({.path = at / "hub/snapshots/abc"})->documents() == foreign("plain_none.parquet").size());
  std::filesystem::create_symlink("../../../../secret", at / "hub/snapshots/abc/data/more.txt");
  check_refused({.path = at / "hub/snapshots/abc"}, core::error_kind::bad_input, "leads out of the data folder");
}

BOOST_AUTO_TEST_CASE(a_folder_of_hugging_faces_cache_is_the_snapshot_of_its_main_revision) {
  const scratch_folder at;
  at.write("hub/set/blobs/0123", "new");
  at.write("hub/set/snapshots/old/a.txt", "old");
  std::filesystem::create_directories(at / "hub/set/snapshots/abc");
  std::filesystem::create_symlink("../../blobs/0123", at / "hub/set/snapshots/abc/a.txt");
  check_refused({.path = at / "hub/set"}, core::error_kind::bad_input,
                "its refs/main names no snapshot that is there: name the folder of one: snapshots/abc, snapshots/old");
  at.write("hub/set/refs/main", "abc\n");
  BOOST_TEST(as_text(*opened({.path = at / "hub/set"})) == "new");
  check_refused({.path = at / "hub"}, core::error_kind::bad_input,
                "set' in the data folder is one of Hugging Face's cache: name this folder");
  for (const char* revision : {"..", "gone", "", "/"}) {
    at.write("hub/set/refs/main", revision);
    check_refused({.path = at / "hub/set"}, core::error_kind::bad_input, "names no snapshot that is there");
  }
}

BOOST_AUTO_TEST_CASE(a_link_that_leads_nowhere_is_named) {
  const scratch_folder at;
  at.write("in/a.txt", "text");
  std::filesystem::create_symlink("/nonexistent/disk", at / "in/b.txt");
  for (const char* path : {"in", "in/b.txt"})
    check_refused({.path = at / path}, core::error_kind::bad_input,
                  "is a link to '/nonexistent/disk', which does not exist");
}

BOOST_AUTO_TEST_CASE(endings_are_read_whatever_their_letters) {
  for (const auto& [name, kind] : std::vector<std::pair<const char*, data::source_kind>>{
           {"a.JSONL", data::source_kind::json_lines},
           {"a.ndjson", data::source_kind::json_lines},
           {"a.jsonlines", data::source_kind::json_lines},
           {"c4-train.00000-of-01024.json.gz", data::source_kind::json_lines},
           {"a.Json.GZ", data::source_kind::json_lines},
           {"00.jsonl.zst", data::source_kind::json_lines},
           {"a.json.ZST", data::source_kind::json_lines},
           {"a.tar.zst", data::source_kind::tar},
           {"a.BIN", data::source_kind::tokens},
           {"a.Parquet", data::source_kind::parquet},
           {"a.TGZ", data::source_kind::tar},
           {"shard.00000.mds", data::source_kind::mds},
           {"a.txt", data::source_kind::text}})
    BOOST_TEST((data::kind_of(name) == kind), name);
  BOOST_TEST((data::is_packed("a.GZ") && data::is_packed("a.Zst") && !data::is_packed("zst")));
}

BOOST_AUTO_TEST_CASE(packed_files_and_other_formats_are_no_text) {
  const scratch_folder at;
  for (const auto& [bytes, what] : std::vector<std::pair<std::string, std::string>>{
           {"\x28\xB5\x2F\xFD packed"s, "packed by zstd: give it a name that ends in .zst"},
           {"\xFD"s + "7zXZ\0 packed"s, "packed by xz"},
           {"BZh91AY&SY packed", "packed by bzip2"},
           {"BZh11AY&SY packed", "packed by bzip2"},
           {"\x04\x22\x4D\x18 packed", "packed by LZ4"},
           {"7z\xBC\xAF\x27\x1C packed", "a 7z archive"},
           {"PK\x03\x04 packed", "a zip archive"},
           {"\x1F\x8B\x08 packed", "packed by gzip: give it a name that ends in .gz"},
           {content_of(foreign_path("plain_none.parquet")), "a Parquet file: give it a name that ends in .parquet"},
           {content_of(foreign_path("file.arrow")), "an Arrow file: give it a name that ends in .arrow"},
           {"\x93NUMPY\x01\0v\0"s, "a NumPy array: tokens are written for training by"},
           {"\x80\x04\x95\x10\0\0\0.."s, "a Python pickle"},
           {"\x89HDF\r\n\x1A\n packed"s, "an HDF5 file"},
           {"SQLite format 3\0 pages"s, "an SQLite database"},
           {"%PDF-1.7 objects", "a PDF document"},
           {"\x7F"s + "ELF\x02 code", "a program (ELF)"},
           {"\x89PNG\r\n\x1A\n pixels", "an image (PNG)"},
           {"\xFF\xD8\xFF\xE0 pixels", "an image (JPEG)"},
           {"GIF89a pixels", "an image (GIF)"},
           {"RIFF1234WAVE", "a recording (WAV)"},
           {"Rar!\x1A\x07 packed", "a RAR archive"},
           {"Obj\x01 rows", "an Avro file"},
           {"ORC\x01\0\x02"s, "an ORC file"},
           {"\xFF\xFEt\0e\0"s, "text in UTF-16: convert it to UTF-8"},
           {"\xFF\xFE\0\0t\0\0\0"s, "text in UTF-32"},
           {"t\0e\0x\0t\0s\0"s, "text in UTF-16, the lower byte first"},
           {"\0t\0e\0x\0t\0s"s, "text in UTF-16, the upper byte first"},
           {"some text\0 and more"s, "binary data (byte 9 is zero)"},
           {"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n",
            "a pointer of git-lfs: fetch the content by `git lfs pull`"}}) {
    check_refused({.path = at.write("corpus.jsonl.br", bytes)}, core::error_kind::bad_input, what);
    check_refused({.path = at.write("corpus.jsonl", bytes)}, core::error_kind::bad_input, what);
    check_refused({.path = at.write("corpus.json.gz", gzip(bytes))}, core::error_kind::bad_input, what);
  }
  // The file is a record of TensorFlow with 5 bytes: the length, the masked CRC-32C of the length, the bytes, and their
  // CRC.
  check_refused({.path = at.write("a.txt",
                                  "\x05\0\0\0\0\0\0\0\xEA\xB2\x04\x3E"
                                  "hello\0\0\0\0"s)},
                core::error_kind::bad_input, "a TFRecord file");
  check_refused({.path = at.write("a.csv", "text,n\nfirst,1\n")}, core::error_kind::bad_input,
                "a table of separated values: write its texts as JSON lines or Parquet");
  for (const char* name : {"a.parquet", "a.tar", "a.bin", "a.mds"})
    check_refused({.path = at.write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")},
                  core::error_kind::bad_input, "a pointer of git-lfs");
  check_refused({.path = at.write("t.bin", "\x93NUMPY\x01\0"s), .vocab_size = 65536}, core::error_kind::bad_input,
                "wanted tokens, got a NumPy array");
  for (const std::string rows : {"{\"text\": \"a\"}\n{\"text\": \"b\"}\n", "\xEF\xBB\xBF{\"id\": 1, \"text\": \"a\"}",
                                 "{\"body\": \"a\", \"n\": NaN}\r\n{\"body\": \"b\"}\r\n"})
    for (const char* name : {"part-00000", "a.jsonl.1", "a.jl", "a.txt", "a.txt.gz"})
      check_refused({.path = at.write(name, std::string(name).ends_with(".gz") ? gzip(rows) : rows)},
                    core::error_kind::bad_input, "wanted text, got JSON lines: give it a name that ends in .jsonl");
  check_refused({.path = at.write("long", "{\"text\": \"" + std::string(1 << 17, 'a') + "\"}\n")},
                core::error_kind::bad_input, "got JSON lines");
  for (const std::string page : {"<!DOCTYPE html>\n<html>", "\n<HTML lang=en>"}) {
    check_refused({.path = at.write("t.bin", page), .vocab_size = 65536}, core::error_kind::bad_input,
                  "wanted tokens, got a page in HTML");
    BOOST_TEST(as_text(*opened({.path = at.write("t.html", page)})) == page);
  }
  check_refused({.path = at.write("t.bin", "LITPKDS" + std::string(41, '\1')), .vocab_size = 65536},
                core::error_kind::bad_input, "wanted tokens, got tokens in lit-gpt's packed form");
  for (const std::string text : {"{\n  \"text\": \"a\"\n}\n", "{\"version\": 3}\n", "{text}\n{text}\n",
                                 "\n{\"text\": 1}\n", "{\"a\": 1}\n{\"b\": 2}\n"})
    BOOST_TEST(as_text(*opened({.path = at.write("t.txt", text)})) == text);
  for (const std::string text : {"PAR1 is a word", "BZh", "PK", "ARROW1", "P"})
    BOOST_TEST(as_text(*opened({.path = at.write("t.txt", text)})) == text);
}

BOOST_AUTO_TEST_CASE(pickles_of_every_protocol_are_no_text) {
  const scratch_folder at;
  const std::string list = "(lp0\nVtext\np1\na.", of_python_2 = "(dp1\nS'text'\np2\nI1\ns.";
  for (const std::string& pickle :
       {list, of_python_2, "]q\0(X\1\0\0\0aq\1e."s, "ccopy_reg\n_reconstructor\np0\n(c__main__\nA\np1\ntp2\nRp3\n."s,
        "Vtext\np0\n."s, "Vtwo\\u000alines\np0\n."s, "S'text'\np0\n."s, "S\"it's\"\np12\n."s,
        "V" + std::string(1 << 20, 'a') + "\np0\n.", "(Va\np0\nVb\np1\ntp2\n."s,
        "c_codecs\nencode\np0\n(Vab\np1\nVlatin1\np2\ntp3\nRp4\n."s})
    for (const char* name : {"corpus.txt", "corpus.jsonl"})
      check_refused({.path = at.write(name, pickle)}, core::error_kind::bad_input,
                    "a Python pickle: write its texts as JSON lines or Parquet");
  for (const char* name : {"a.pkl", "a.pickle", "A.PKL", "a.pkl.gz"})
    check_refused({.path = at.write(name, std::string(name).ends_with(".gz") ? gzip("words.") : "words.")},
                  core::error_kind::bad_input, "got a Python pickle");
  for (const std::string text :
       {"(lp0\nno pickle", "(lp) is a word.", "(dpx\n.", "]queue.", "}q.", "Verses\nand more\np0\n.", "Very short\n.",
        "Verses\np0\n.\n", "Verses\np\n.", "V\nq0\n.", "(Verses)\np0\n.", "p0\n."})
    BOOST_TEST(as_text(*opened({.path = at.write("t.txt", text)})) == text);
}

BOOST_AUTO_TEST_CASE(an_array_is_written_as_tokens_of_a_type_that_holds_its_values) {
  const scratch_folder at;
  const auto array = [](const std::string& type) {
    return "\x93NUMPY\x01\0v\0{'descr': '"s + type + "', 'fortran_order': False, 'shape': (20,), }\n";
  };
  const auto says = [&](const std::string& content, const std::string& words) {
    for (const char* name : {"a.npy", "a.bin"})
      check_refused({.path = at.write(name, content), .vocab_size = 65536}, core::error_kind::bad_input, words);
  };
  for (const char* type : {"|u1", "<u2", "<i2"})
    says(array(type), "`numpy.load(FILE).astype('uint16').tofile('NAME.bin')`");
  for (const char* type : {"<u4", "<i4", ">u4", "<i8", "<u8"})
    says(array(type), "`numpy.load(FILE).astype('uint32').tofile('NAME.bin')`, which data.bin_dtype: uint32");
  says(array("<f4"), "a NumPy array: its type '<f4' is none of tokens");
  const auto packed = [](char type) { return "LITPKDS\1\0\0\0\0\0\0\0"s + type + std::string(40, '\1'); };
  const auto packed_says = [&](char type, const std::string& words) {
    check_refused({.path = at.write("a.bin", packed(type)), .vocab_size = 65536}, core::error_kind::bad_input, words);
  };
  packed_says('\x08', "`numpy.fromfile(FILE, 'uint16', offset=24).astype('uint16').tofile('NAME.bin')`");
  packed_says('\x04', "`numpy.fromfile(FILE, 'int32', offset=24).astype('uint32').tofile('NAME.bin')`");
}

BOOST_AUTO_TEST_SUITE_END()
