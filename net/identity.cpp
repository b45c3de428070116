#include "net/identity.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <memory>

#include "core/clock.hpp"
#include "core/text.hpp"
#include "net/address.hpp"
#include "net/openssl.hpp"
#include "net/private_file.hpp"

namespace troupe::net {
namespace {

/// Returns the index at which OpenSSL's data of each handshake contain the first error of the other end's certificate.
int finding_place() {
  static const int place = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return place;
}

/// Records an error of the other end's certificate but lets the handshake complete, because the sentence that states
/// the refusal is sent over the connection.
int note_finding(int good, X509_STORE_CTX* of) {
  auto* const s = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(of, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (good != 1 && s != nullptr && SSL_get_ex_data(s, finding_place()) == nullptr)
    SSL_set_ex_data(s, finding_place(), reinterpret_cast<void*>(static_cast<intptr_t>(X509_STORE_CTX_get_error(of))));
  return 1;
}

long finding_of(SSL* s) {
  const auto first = static_cast<long>(reinterpret_cast<intptr_t>(SSL_get_ex_data(s, finding_place())));
  return first != 0 ? first : SSL_get_verify_result(s);
}

std::string now_text() {
  const std::unique_ptr<ASN1_TIME, freed_by<ASN1_TIME_free>> now(
      ASN1_TIME_set(nullptr, static_cast<time_t>(core::unix_seconds())));
  return text_of_time(now.get());
}

bool is_for(X509* certificate, const std::string& wanted) {
  if (is_numeric(wanted)) return X509_check_ip_asc(certificate, wanted.c_str(), 0) == 1;
  return X509_check_host(certificate, wanted.data(), wanted.size(),
                         X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, nullptr) == 1;
}

core::result<tls_options> make_options(tls_side side, X509* certificate, EVP_PKEY* key,
                                       const std::string& authorities) {
  auto out = make_tls_options(side);
  if (!out) return out;
  SSL_CTX* const c = out->get();
  if (SSL_CTX_use_certificate(c, certificate) != 1 || SSL_CTX_use_PrivateKey(c, key) != 1)
    return core::fail(core::error_kind::bad_input, "cannot use a certificate: " + openssl_failure());
  const auto list = memory_of(authorities);
  for (;;) {
    const certificate_pointer one(PEM_read_bio_X509(list.get(), nullptr, nullptr, nullptr));
    if (one == nullptr) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(c), one.get()) != 1)
      return core::fail(core::error_kind::bad_input, "cannot use an authority: " + openssl_failure());
  }
  ERR_clear_error();
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER, note_finding);
  return out;
}

}  // namespace

core::result<identity> identity::load(const identity_files& files) {
  TROUPE_ASSIGN(auto key_text, read_whole_file(files.key, readers::owner));
  const secret_text pem(std::move(key_text));
  TROUPE_ASSIGN(const auto certificate_text, read_whole_file(files.certificate, readers::all));
  TROUPE_ASSIGN(const auto authority_text, read_whole_file(files.authority, readers::all));

  const auto key = key_in(pem.get());
  const auto certificate = certificate_in(certificate_text), authority = certificate_in(authority_text);
  ERR_clear_error();  // removes OpenSSL's errors, which may contain parts of the key
  const auto none = [](const std::filesystem::path& path, const char* wanted) {
    return core::fail(core::error_kind::bad_input, "'" + path.string() + "': wanted " + wanted + " in PEM");
  };
  if (key == nullptr) return none(files.key, "a key without a password");
  if (certificate == nullptr) return none(files.certificate, "a certificate");
  if (authority == nullptr) return none(files.authority, "an authority's certificate");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return core::fail(core::error_kind::mismatch,
                      "'" + files.key.string() + "' is not the key of '" + files.certificate.string() + "'");
  }
  identity out;
  out.name_ = host_name_of(certificate.get());
  out.authority_ = common_name_of(authority.get());
  if (out.name_.empty()) return none(files.certificate, "a certificate for a host's name or address");
  TROUPE_ASSIGN(auto connects, make_options(tls_side::connects, certificate.get(), key.get(), authority_text));
  TROUPE_ASSIGN(auto accepts, make_options(tls_side::accepts, certificate.get(), key.get(), authority_text));
  out.connects_ = std::move(connects);
  out.accepts_ = std::move(accepts);
  return out;
}

std::string identity::objection(const tls_stream& with, const std::string& wanted) const {
  X509* const theirs = SSL_get0_peer_certificate(with.get());
  const std::string want = "wanted one of the authority '" + authority_ + "'";
  if (theirs == nullptr) return "no certificate was shown; " + want;
  const std::string name = host_name_of(theirs), who = "the certificate for '" + name + "'";
  switch (const long found = finding_of(with.get())) {
    case X509_V_OK:
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return who + " expired " + text_of_time(X509_get0_notAfter(theirs)) + "; the clock here shows " + now_text();
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return who + " is valid only from " + text_of_time(X509_get0_notBefore(theirs)) + " on; the clock here shows " +
             now_text();
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return who + " is of another authority; " + want;
    default:
      return who + " is not valid: " + X509_verify_cert_error_string(found);
  }
  if (name.empty()) return "a certificate without a host's name was shown; wanted one for a host";
  if (!wanted.empty() && !is_for(theirs, wanted)) return who + " was shown; wanted one for '" + wanted + "'";
  return {};
}

std::string peer_name(const tls_stream& with) {
  X509* const theirs = SSL_get0_peer_certificate(with.get());
  return theirs == nullptr ? std::string() : host_name_of(theirs);
}

}  // namespace troupe::net
