#include "net/certificates.hpp"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "net/identity.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(certificates)

using namespace troupe;
using namespace troupe::net;
using tests::scratch_folder;
using troupe::tests::check_failed;

namespace {

unsigned mode_of(const std::filesystem::path& file) {
  struct stat about {};
  BOOST_TEST_REQUIRE(::stat(file.c_str(), &about) == 0);
  return about.st_mode & 07777U;
}

void must(const core::result<void>& done) { BOOST_TEST_REQUIRE(done.has_value(), (done ? "" : done.error().text)); }

void refused(const core::result<void>& done, const std::string& with) {
  BOOST_TEST_REQUIRE(!done.has_value());
  BOOST_TEST((done.error().kind == core::error_kind::bad_input));
  BOOST_TEST(done.error().text.find(with) != std::string::npos, done.error().text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_host_has_its_name_or_address_and_a_key_of_its_own) {
  const scratch_folder f;
  must(make_authority(f / "job", "a-job"));
  for (const std::string host : {"node1", "node-2.example.org", "10.0.0.3", "fe80::1", "under_score"}) {
    BOOST_TEST_INFO_SCOPE(host);
    must(issue_certificate(f / "job", host));
    const auto who = identity::load(identity_files_in(f / "job" / host));
    BOOST_TEST_REQUIRE(who.has_value(), (who ? "" : who.error().text));
    BOOST_TEST(who->name() == host);
    BOOST_TEST(mode_of(f / "job" / host / "host.key") == 0600U);
    BOOST_TEST(mode_of(f / "job" / host / "host.crt") == 0644U);
  }
  BOOST_TEST(mode_of(f / "job/ca.key") == 0600U);
  BOOST_TEST(scratch_folder::read(f / "job/node1/host.key") != scratch_folder::read(f / "job/10.0.0.3/host.key"));
  BOOST_TEST(!std::filesystem::exists(f / "job/node1/ca.key"));
}

BOOST_AUTO_TEST_CASE(nothing_is_written_over_unless_it_is_asked_for) {
  const scratch_folder f;
  must(make_authority(f / "job", "a-job"));
  must(issue_certificate(f / "job", "node1"));
  const auto authority = scratch_folder::read(f / "job/ca.key"), key = scratch_folder::read(f / "job/node1/host.key");
  refused(make_authority(f / "job", "a-job"), "is there already (--force replaces it)");
  refused(issue_certificate(f / "job", "node1"), "host.crt' is there already");
  BOOST_TEST(scratch_folder::read(f / "job/ca.key") == authority);
  BOOST_TEST(scratch_folder::read(f / "job/node1/host.key") == key);
  must(issue_certificate(f / "job", "node1", {.replaces = true}));
  BOOST_TEST(scratch_folder::read(f / "job/node1/host.key") != key);
  must(make_authority(f / "job", "another", {.days = authority_days, .replaces = true}));
  BOOST_TEST(scratch_folder::read(f / "job/ca.key") != authority);
}

BOOST_AUTO_TEST_CASE(a_renewed_certificate_is_for_the_same_key) {
  const scratch_folder f;
  must(make_authority(f / "job", "a-job"));
  refused(renew_certificate(f / "job", "node1"), "renewing 'node1': cannot read");
  must(issue_certificate(f / "job", "node1", {.days = 1}));
  const auto certificate = scratch_folder::read(f / "job/node1/host.crt"),
             key = scratch_folder::read(f / "job/node1/host.key");
  must(renew_certificate(f / "job", "node1"));
  BOOST_TEST(scratch_folder::read(f / "job/node1/host.crt") != certificate);
  BOOST_TEST(scratch_folder::read(f / "job/node1/host.key") == key);
  BOOST_TEST(identity::load(identity_files_in(f / "job/node1")).has_value());
}

BOOST_AUTO_TEST_CASE(names_that_are_none_and_days_that_are_too_many_are_refused) {
  const scratch_folder f;
  must(make_authority(f / "job", "a-job"));
  for (const std::string name : {"", "-rf", "a/b", "..", ".hidden", "a b", "a\nb", "caf\xc3\xa9", "a,DNS:b"}) {
    refused(issue_certificate(f / "job", name), "wanted 1 to 64 letters");
    refused(make_authority(f / "other", name), "wanted 1 to 64 letters");
  }
  refused(issue_certificate(f / "job", std::string(65, 'a')), "wanted 1 to 64 letters");
  refused(issue_certificate(f / "job", "node1", {.days = 0}), "wanted 1 to 3650");
  refused(issue_certificate(f / "job", "node1", {.days = 4000}), "wanted 1 to 3650, got 4000");
  must(make_authority(f / "short", "short", {.days = 10}));
  refused(issue_certificate(f / "short", "node1", {.days = 11}), "wanted one that expires before its authority");
  refused(issue_certificate(f / "none", "node1"), "troupe cert init makes one");
  BOOST_TEST(!std::filesystem::exists(f / "other"));
  BOOST_TEST(!std::filesystem::exists(f / "short/node1"));
}

BOOST_AUTO_TEST_CASE(keys_that_others_may_read_are_refused_and_never_shown) {
  const scratch_folder f;
  must(make_authority(f / "job", "a-job"));
  must(issue_certificate(f / "job", "node1"));
  const auto files = identity_files_in(f / "job/node1");
  for (const unsigned mode : {0644U, 0640U, 0604U, 0660U}) {
    BOOST_TEST_INFO_SCOPE("mode " << mode);
    BOOST_TEST_REQUIRE(::chmod(files.key.c_str(), mode) == 0);
    const auto who = identity::load(files);
    BOOST_TEST_REQUIRE(!who.has_value());
    BOOST_TEST(who.error().text.find("wanted a file that only its owner may read (chmod 600), got mode 06") !=
               std::string::npos);
  }
  BOOST_TEST_REQUIRE(::chmod(files.key.c_str(), 0600) == 0);
  // The file's content is not a key, and the error must not print it.
  auto text = scratch_folder::read(files.key);
  const std::string middle = text.substr(60, 30);
  text[70] = text[70] == 'A' ? 'B' : 'A';
  text[71] = '!';
  f.write("job/node1/host.key", text);
  const auto who = identity::load(files);
  BOOST_TEST_REQUIRE(!who.has_value());
  BOOST_TEST(who.error().text.find(text.substr(60, 8)) == std::string::npos);
  BOOST_TEST(who.error().text.find("wanted a key without a password in PEM") != std::string::npos, who.error().text);
  BOOST_TEST_REQUIRE(::chmod((f / "job/ca.key").c_str(), 0644) == 0);
  refused(issue_certificate(f / "job", "node3"), "got mode 0644");
}

BOOST_AUTO_TEST_CASE(files_that_do_not_belong_together_are_refused) {
  const scratch_folder f;
  must(make_authority(f / "job", "a-job"));
  must(make_authority(f / "other", "another"));
  must(issue_certificate(f / "job", "node1"));
  must(issue_certificate(f / "job", "node2"));
  auto files = identity_files_in(f / "job/node1");
  files.key = f / "job/node2/host.key";
  check_failed(identity::load(files), "is not the key of");
  std::filesystem::copy_file(f / "other/ca.key", f / "job/ca.key", std::filesystem::copy_options::overwrite_existing);
  check_failed(issue_certificate(f / "job", "node3"), core::error_kind::mismatch);
  f.write("job/node1/host.crt", "nothing");
  BOOST_TEST(!identity::load(identity_files_in(f / "job/node1")).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
