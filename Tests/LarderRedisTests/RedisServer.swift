// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import Synchronization
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A redis-server of a test, on a Unix socket, without a password by default.
final class RedisServer: Sendable {
  static let isAvailable = search("redis-server") && search("openssl")

  private static func search(_ name: String) -> Bool {
    SearchPath.value.split(separator: ":").contains {
      unsafe access("\($0)/\(name)", X_OK) == 0
    }
  }

  private static let ports = Atomic<Int>(Int.random(in: 0..<12_000))

  /// Returns another port for each server of these tests, of those that no system gives to clients. If another
  /// process has it, the server does not start.
  static func nextPort() -> Int {
    20_000 + ports.wrappingAdd(1, ordering: .relaxed).newValue % 12_000
  }

  let directory: TemporaryDirectory
  let process: ChildProcess
  let port: Int
  private let arguments: [String]

  /// Starts a server and waits until it accepts connections.
  ///
  /// - Parameters:
  ///   - options: Further options.
  ///   - certificates: The certificates of a server that also listens at a port, with TLS.
  ///   - hasPort: Whether a server without TLS also listens at a port.
  init(
    _ options: [String] = [], certificates: Certificates? = nil, hasPort: Bool = false
  ) async throws {
    directory = try TemporaryDirectory()
    port = Self.nextPort()
    var words = [
      "--port", hasPort ? "\(port)" : "0", "--unixsocket", directory.appending("socket"),
    ]
    if let certificates {
      words += [
        "--tls-port", "\(port)", "--tls-cert-file", certificates.path("server.pem"),
        "--tls-key-file",
        certificates.path("server.key"), "--tls-ca-cert-file", certificates.path("ca.pem"),
      ]
    }
    arguments =
      words + [
        "--save", "", "--appendonly", "no", "--dir", directory.path, "--logfile",
        directory.appending("log"),
      ] + options
    process = try ChildProcess("redis-server", arguments)
    try await accepts()
  }

  private init(_ directory: TemporaryDirectory, _ port: Int, _ arguments: [String]) async throws {
    (self.directory, self.port, self.arguments) = (directory, port, arguments)
    process = try ChildProcess("redis-server", arguments)
    try await accepts()
  }

  /// Starts the server again after it has ended, without its data.
  func restarted() async throws -> RedisServer {
    try await RedisServer(directory, port, arguments)
  }

  private func accepts() async throws {
    let configuration = socket
    try await awaitEventually("the server accepts connections") {
      let error = await redisError {
        await (try RedisConnection.connect(to: configuration)).close()
      }
      return error?.code != .unreachable
    }
  }

  var socket: RedisConfiguration {
    configuration(.unixSocket(path: directory.appending("socket")))
  }

  var tcp: RedisConfiguration { configuration(.host("127.0.0.1", port: port)) }

  /// On a busy machine an answer takes longer than the usual limit.
  private func configuration(_ address: RedisConfiguration.Address) -> RedisConfiguration {
    var result = RedisConfiguration(address: address)
    result.connectTimeout = .seconds(60)
    result.timeout = .seconds(60)
    return result
  }
}

/// An authority, and the certificates of a server and of a client.
struct Certificates {
  let directory: TemporaryDirectory

  func path(_ name: String) -> String { directory.appending(name) }

  init() throws {
    directory = try TemporaryDirectory()
    let script = """
      set -e
      cd "$0"
      new() { openssl req "$@" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes; }
      new -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
      printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' >names
      for name in server client; do
        new -new -subj "/CN=$name" -keyout $name.key -out $name.csr
        openssl x509 -req -days 2 -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial \\
          -extfile names -out $name.pem
      done
      """
    let outcome = try ChildProcess.run("sh", ["-c", script, directory.path])
    #expect(outcome.status.isSuccess, "\(outcome.standardError)")
  }
}

/// The variable `PATH`.
private enum SearchPath {
  static var value: String { unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? "" }
}

let needsRedis: Comment = "needs redis-server and openssl"

#if RedisTLS
let hasTLS = true
#else
let hasTLS = false
#endif

/// Returns the error of an operation.
func redisError(_ body: () async throws -> Void) async -> RedisError? {
  do {
    try await body()
    return nil
  } catch {
    return error as? RedisError
  }
}
#endif
