#include "net/certificates.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <initializer_list>

#include "core/clock.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "net/address.hpp"
#include "net/openssl.hpp"
#include "net/private_file.hpp"
#include "net/tls_stream.hpp"

namespace troupe::net {
namespace {

namespace fs = std::filesystem;

constexpr size_t name_bytes_max = 64;
constexpr int64_t hour_s = 3600, day_s = 24 * hour_s;

struct signed_by {
  X509* issuer = nullptr;  ///< certificate of the authority that signs; null: the new certificate signs itself
  EVP_PKEY* key = nullptr;
};

core::error no_openssl(const std::string& what) {
  return {core::error_kind::limit, "cannot make " + what + ": " + openssl_failure()};
}

core::result<void> check_name(const std::string& what, const std::string& name) {
  const auto good = [](char c) { return core::is_ascii_word(c) || c == '.' || c == '-' || c == ':' || c == '_'; };
  if (!name.empty() && name.size() <= name_bytes_max && name[0] != '-' && name[0] != '.' &&
      std::ranges::all_of(name, good))
    return {};
  return core::fail(
      core::error_kind::bad_input,
      fmt::format("{}: wanted 1 to {} letters, digits and '.', '-', ':', '_', not beginning with '-' or '.', got '{}'",
                  what, name_bytes_max, core::shown(name)));
}

core::result<void> check_days(uint32_t days) {
  if (days >= 1 && days <= certificate_days_max) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("days of a certificate: wanted 1 to {}, got {}", certificate_days_max, days));
}

bool add_extension(X509* to, const X509V3_CTX& context, int what, const std::string& value) {
  X509V3_CTX c = context;
  std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>> x(
      X509V3_EXT_conf_nid(nullptr, &c, what, value.c_str()));
  return x != nullptr && X509_add_ext(to, x.get(), -1) == 1;
}

struct extension {
  int what;
  std::string value;
};

/// Sets a serial number of 127 random bits, so that all certificates of an authority have different numbers.
bool set_serial(X509* of) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  bytes[0] &= 0x7f;
  std::unique_ptr<BIGNUM, freed_by<BN_free>> n(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  return n != nullptr && BN_to_ASN1_INTEGER(n.get(), X509_get_serialNumber(of)) != nullptr;
}

core::result<certificate_pointer> make_certificate(const std::string& name, EVP_PKEY* key, const issue_options& options,
                                                   signed_by by, const std::vector<extension>& extensions) {
  ERR_clear_error();
  certificate_pointer out(X509_new());
  if (out == nullptr) return core::fail(no_openssl("a certificate"));
  const time_t begin =
      options.begins_unix_s != 0 ? options.begins_unix_s : static_cast<time_t>(core::unix_seconds()) - hour_s;
  const time_t end = begin + static_cast<time_t>(options.days) * day_s;
  X509_NAME* const subject = X509_get_subject_name(out.get());
  const auto* const text = reinterpret_cast<const unsigned char*>(name.data());
  bool good = X509_set_version(out.get(), X509_VERSION_3) == 1 && set_serial(out.get()) &&
              ASN1_TIME_set(X509_getm_notBefore(out.get()), begin) != nullptr &&
              ASN1_TIME_set(X509_getm_notAfter(out.get()), end) != nullptr && X509_set_pubkey(out.get(), key) == 1 &&
              X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8, text, static_cast<int>(name.size()),
                                         -1, 0) == 1 &&
              X509_set_issuer_name(out.get(), by.issuer == nullptr ? subject : X509_get_subject_name(by.issuer)) == 1;
  X509V3_CTX context{};
  X509V3_set_ctx(&context, by.issuer == nullptr ? out.get() : by.issuer, out.get(), nullptr, nullptr, 0);
  for (const auto& x : extensions) good = good && add_extension(out.get(), context, x.what, x.value);
  if (!good || X509_sign(out.get(), by.key, EVP_sha256()) == 0) return core::fail(no_openssl("a certificate"));
  return out;
}

core::result<key_pointer> make_key() {
  ERR_clear_error();
  key_pointer out(EVP_EC_gen("P-256"));
  if (out == nullptr) return core::fail(no_openssl("a key"));
  return out;
}

core::result<void> write_key(const fs::path& path, EVP_PKEY* key, existing other) {
  const bio_pointer b(BIO_new(BIO_s_secmem()));
  if (b == nullptr || PEM_write_bio_PKCS8PrivateKey(b.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return core::fail(no_openssl("a key"));
  const secret_text text(text_in(b.get()));
  return write_whole_file(path, text.get(), readers::owner, other);
}

core::result<void> write_certificate(const fs::path& path, X509* certificate, existing other) {
  const bio_pointer b(BIO_new(BIO_s_mem()));
  if (b == nullptr || PEM_write_bio_X509(b.get(), certificate) != 1) return core::fail(no_openssl("a certificate"));
  return write_whole_file(path, text_in(b.get()), readers::all, other);
}

core::result<void> make_folder(const fs::path& folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e || !fs::is_directory(folder, e))
    return core::fail(core::path_error("make the folder", folder, e ? e.value() : ENOTDIR));
  return {};
}

/// Returns an error if one of the files exists already. Called before any file is written.
core::result<void> refuse_existing(std::initializer_list<fs::path> files) {
  for (const auto& f : files) {
    std::error_code e;
    if (fs::exists(fs::symlink_status(f, e)))
      return core::fail(core::error_kind::bad_input, "'" + f.string() + "' is there already (--force replaces it)");
  }
  return {};
}

core::result<key_pointer> read_key(const fs::path& path) {
  TROUPE_ASSIGN(auto text, read_whole_file(path, readers::owner));
  const secret_text pem(std::move(text));
  ERR_clear_error();
  auto out = key_in(pem.get());
  ERR_clear_error();  // removes OpenSSL's errors, which may contain parts of the key
  if (out == nullptr)
    return core::fail(core::error_kind::bad_input, "'" + path.string() + "': wanted a key in PEM without a password");
  return out;
}

core::result<certificate_pointer> read_certificate(const fs::path& path) {
  TROUPE_ASSIGN(auto text, read_whole_file(path, readers::all));
  ERR_clear_error();
  auto out = certificate_in(text);
  ERR_clear_error();
  if (out == nullptr)
    return core::fail(core::error_kind::bad_input, "'" + path.string() + "': wanted a certificate in PEM");
  return out;
}

struct authority {
  certificate_pointer certificate;
  key_pointer key;
};

core::result<authority> read_authority(const fs::path& folder) {
  auto certificate = read_certificate(folder / "ca.crt");
  if (!certificate) return core::fail(certificate.error().in("the job's authority (troupe cert init makes one)"));
  auto key = read_key(folder / "ca.key");
  if (!key) return core::fail(key.error().in("the job's authority"));
  if (X509_check_private_key(certificate->get(), key->get()) != 1)
    return core::fail(core::error_kind::mismatch, "'" + (folder / "ca.key").string() + "' is not the key of '" +
                                                      (folder / "ca.crt").string() + "'");
  return authority{std::move(*certificate), std::move(*key)};
}

core::result<certificate_pointer> sign_host(const authority& a, const std::string& host, EVP_PKEY* key,
                                            const issue_options& options) {
  auto out = make_certificate(host, key, options, {a.certificate.get(), a.key.get()},
                              {{NID_basic_constraints, "critical,CA:FALSE"},
                               {NID_key_usage, "critical,digitalSignature"},
                               {NID_ext_key_usage, "serverAuth,clientAuth"},
                               {NID_subject_alt_name, (is_numeric(host) ? "IP:" : "DNS:") + host},
                               {NID_subject_key_identifier, "hash"},
                               {NID_authority_key_identifier, "keyid:always"}});
  if (out && ASN1_TIME_compare(X509_get0_notAfter(out->get()), X509_get0_notAfter(a.certificate.get())) > 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("a certificate for '{}': wanted one that expires before its authority, on {}, got {} "
                                  "days; give fewer --days",
                                  host, text_of_time(X509_get0_notAfter(a.certificate.get())), options.days));
  return out;
}

core::result<void> copy_authority(const fs::path& folder, const fs::path& to) {
  TROUPE_ASSIGN(auto text, read_whole_file(folder / "ca.crt", readers::all));
  return write_whole_file(to / "ca.crt", text, readers::all, existing::is_replaced);
}

}  // namespace

std::string common_name_of(X509* certificate) {
  std::array<char, 256> out{};
  const int n = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, out.data(), out.size());
  return n > 0 ? core::shown({out.data(), static_cast<size_t>(n)}) : std::string();
}

std::string host_name_of(X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, freed_by<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const x = sk_GENERAL_NAME_value(names.get(), i);
    if (x->type != GEN_DNS && x->type != GEN_IPADD) continue;
    const auto* const data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(x->d.ia5));
    const std::string text(data, static_cast<size_t>(ASN1_STRING_length(x->d.ia5)));
    if (x->type == GEN_DNS) return core::shown(text);
    const std::string shown = address_text(text);
    if (!shown.empty()) return shown;
  }
  return {};
}

std::string text_of_time(const ASN1_TIME* t) {
  std::tm at{};
  if (ASN1_TIME_to_tm(t, &at) != 1) return "at no time";
  return core::text_of("%04d-%02d-%02d %02d:%02d:%02d UTC", at.tm_year + 1900, at.tm_mon + 1, at.tm_mday, at.tm_hour,
                       at.tm_min, at.tm_sec);
}

core::result<fs::path> host_folder(const fs::path& folder, const std::string& host) {
  TROUPE_TRY(check_name("a host's name", host));
  return folder / host;
}

core::result<void> make_authority(const fs::path& folder, const std::string& name, const issue_options& options) {
  TROUPE_TRY(check_name("the authority's name", name));
  TROUPE_TRY(check_days(options.days));
  TROUPE_TRY(make_folder(folder));
  if (!options.replaces) TROUPE_TRY(refuse_existing({folder / "ca.crt", folder / "ca.key"}));
  TROUPE_ASSIGN(auto key, make_key());
  TROUPE_ASSIGN(auto certificate, make_certificate(name, key.get(), options, {nullptr, key.get()},
                                                   {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                                    {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                                    {NID_subject_key_identifier, "hash"}}));
  const auto other = options.replaces ? existing::is_replaced : existing::stays;
  TROUPE_TRY(write_key(folder / "ca.key", key.get(), other));
  return write_certificate(folder / "ca.crt", certificate.get(), other);
}

core::result<void> issue_certificate(const fs::path& folder, const std::string& host, const issue_options& options) {
  TROUPE_ASSIGN(const auto to, host_folder(folder, host));
  TROUPE_TRY(check_days(options.days));
  TROUPE_ASSIGN(auto a, read_authority(folder));
  if (!options.replaces) TROUPE_TRY(refuse_existing({to / "host.crt", to / "host.key"}));
  TROUPE_ASSIGN(auto key, make_key());
  TROUPE_ASSIGN(auto certificate, sign_host(a, host, key.get(), options));
  TROUPE_TRY(make_folder(to));
  const auto other = options.replaces ? existing::is_replaced : existing::stays;
  TROUPE_TRY(write_key(to / "host.key", key.get(), other));
  TROUPE_TRY(write_certificate(to / "host.crt", certificate.get(), other));
  return copy_authority(folder, to);
}

core::result<void> renew_certificate(const fs::path& folder, const std::string& host, const issue_options& options) {
  TROUPE_ASSIGN(const auto to, host_folder(folder, host));
  TROUPE_TRY(check_days(options.days));
  TROUPE_ASSIGN(auto a, read_authority(folder));
  auto key = read_key(to / "host.key");
  if (!key) return core::fail(key.error().in("renewing '" + host + "'"));
  TROUPE_ASSIGN(auto certificate, sign_host(a, host, key->get(), options));
  TROUPE_TRY(write_certificate(to / "host.crt", certificate.get(), existing::is_replaced));
  return copy_authority(folder, to);
}

}  // namespace troupe::net
