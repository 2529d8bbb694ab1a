// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Redis
import LarderEngine
import LarderRedis
import LarderTesting

/// A redis-server of this run, on a private socket.
final class PrivateServer: Sendable {
  let directory: TemporaryDirectory
  let process: ChildProcess

  init(_ options: [String] = []) async throws {
    directory = try TemporaryDirectory()
    let log = ["--logfile", directory.appending("log"), "--dir", directory.path]
    process = try ChildProcess(
      "redis-server",
      ["--port", "0", "--unixsocket", directory.appending("socket"), "--save", ""] + log + options)
    let client = RedisClient(try RedisConfiguration(url: url))
    let process = process
    try await awaitEventually("the server answers, or has ended") {
      if process.exitStatus != nil { return true }
      return (try? await client.send(RedisCommand("PING"))) != nil
    }
    try await client.send(RedisCommand("PING"))
  }

  var url: String { "redis+unix://\(directory.appending("socket"))" }

  func client() throws -> RedisClient { RedisClient(try RedisConfiguration(url: url)) }

  /// Runs redis-benchmark with GET of 100 bytes on one connection.
  ///
  /// - Returns: The requests per second.
  func benchmark(pipeline: Int, requests: Int) throws -> Double {
    let outcome = try ChildProcess.run(
      "redis-benchmark",
      [
        "-s", directory.appending("socket"), "-t", "get", "-c", "1", "-d", "100", "-P",
        "\(pipeline)", "-n", "\(requests)", "--csv",
      ])
    // "GET","102040.82",…
    let line = outcome.lines.last { $0.hasPrefix("\"GET\"") } ?? ""
    let words = line.split(separator: ",").map { $0.filter { $0 != "\"" } }
    return words.count > 1 ? Double(words[1]) ?? 0 : 0
  }
}

/// Workers of several hosts, with one store for each host.
struct WorkerGroup {
  let directory: TemporaryDirectory
  let workers: [ChildProcess]

  /// Starts workers, and waits until they are ready.
  ///
  /// - Parameters:
  ///   - options: Further arguments of each.
  ///   - command: What starts the executable, for a host.
  init(
    hosts: Int, perHost: Int, url: String, _ options: [String],
    command: (Int) -> [String] = { _ in [] }
  ) throws {
    directory = try TemporaryDirectory()
    let count = hosts * perHost
    var workers: [ChildProcess] = []
    for index in 0..<count {
      let host = index % hosts
      let words =
        command(host) + [
          try PeerExecutable.path, "hosts", "worker", "--waits", "--store",
          directory.appending("host\(host)"),
          "--url", url, "--index", "\(index)", "--processes", "\(count)",
        ] + options
      workers.append(try ChildProcess(words[0], Array(words.dropFirst())))
    }
    self.workers = workers
    for worker in workers { _ = try worker.nextLine() }
  }

  func begin() throws { for worker in workers { try worker.send("begin") } }

  /// Waits for the reports of the workers that were not killed.
  func reports(without killed: [ChildProcess] = []) throws -> [WorkerReport] {
    try workers.filter { worker in !killed.contains { $0 === worker } }.map { worker in
      let report = try WorkerReport(worker.nextLine())
      try worker.wait()
      return report
    }
  }
}
#endif
