// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Compiles generated files with several processes at a time, without the cache and with it, and checks
/// the number of hits and each byte of the results.
struct Demonstration {
  let compiler: String
  private let files = 1...12
  private let directory = FileManager.default.temporaryDirectory
    .appendingPathComponent("larder-cc-\(getpid())")
  private var store: String { directory.appendingPathComponent("store").path }

  init(compiler: String) throws {
    self.compiler = compiler
    _ = try Command([compiler])
  }

  func run() async throws -> Bool {
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    for file in files { try writeSource(file) }
    print("\(compiler): \(files.count) files, each compiled by two processes at once")

    // Each file twice, under two names: the second process waits for the first one.
    var isCorrect = try await pass("without the cache", usesCache: false, misses: nil)
    let expected = try objects()
    for (name, misses) in [("empty cache", files.count), ("the same files", 0)] {
      isCorrect = try await pass(name, usesCache: true, misses: misses) && isCorrect
      isCorrect = check(try objects() == expected, "the files of the compiler") && isCorrect
    }
    try writeSource(files.last!, text: "int changed(void) { return 1; }\n")
    isCorrect = try await pass("one file changed", usesCache: true, misses: 1) && isCorrect
    isCorrect = check(try objects() != expected, "another object file") && isCorrect

    // An error is an error in each call, and nothing is stored.
    try writeSource(files.last!, text: "this is no C;\n")
    for attempt in 1...2 {
      let status = try await compile(files.last!, "bad", usesCache: true)
      isCorrect = check(status != 0, "an error in call \(attempt)") && isCorrect
    }
    return isCorrect
  }

  /// Compiles all files, four processes at a time, and prints what the cache counted.
  private func pass(_ name: String, usesCache: Bool, misses: Int?) async throws -> Bool {
    try? FileManager.default.removeItem(at: directory.appendingPathComponent("objects"))
    try FileManager.default.createDirectory(
      at: directory.appendingPathComponent("objects"), withIntermediateDirectories: true)
    let before = try usesCache ? CompilerCache(at: store).counts() : (0, 0)
    let began = ContinuousClock.now
    let calls = files.flatMap { file in ["a", "b"].map { (file, $0) } }
    let failures = try await withThrowingTaskGroup(of: Int32.self) { group in
      var failures = 0
      for (index, (file, copy)) in calls.enumerated() {
        if index >= 4, try await group.next() != 0 { failures += 1 }
        group.addTask { try await compile(file, copy, usesCache: usesCache) }
      }
      for try await status in group where status != 0 { failures += 1 }
      return failures
    }
    let duration = ContinuousClock.now - began
    let after = try usesCache ? CompilerCache(at: store).counts() : (0, 0)
    let (hits, missed) = (Int(after.0 - before.0), Int(after.1 - before.1))
    let title = name.padding(toLength: 18, withPad: " ", startingAt: 0)
    let counts = usesCache ? "\(hits) hits, \(missed) misses, " : ""
    print("  \(title) \(counts)\(duration.milliseconds) ms")
    guard check(failures == 0, "no failure") else { return false }
    guard let misses else { return true }
    return check(missed == misses && hits == calls.count - misses, "\(misses) misses")
  }

  /// Runs the compiler, or this program as a build would.
  private func compile(_ file: Int, _ copy: String, usesCache: Bool) async throws -> Int32 {
    let source = directory.appendingPathComponent("file\(file).c").path
    let output = directory.appendingPathComponent("objects/file\(file)\(copy).o").path
    let process = Process()
    let command = try Command([compiler, "-O2", "-c", source, "-o", output])
    process.executableURL = usesCache ? Bundle.main.executableURL : command.executable
    process.arguments = (usesCache ? [compiler] : []) + command.arguments
    process.environment = ProcessInfo.processInfo.environment
      .merging(["LARDER_CC_CACHE": store]) { $1 }
    process.standardError = FileHandle.nullDevice
    let (ends, end) = AsyncStream.makeStream(of: Void.self)
    process.terminationHandler = { _ in end.finish() }
    try process.run()
    for await _ in ends {}
    return process.terminationStatus
  }

  /// Returns the object files by name.
  private func objects() throws -> [String: Data] {
    let folder = directory.appendingPathComponent("objects")
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    return try Dictionary(
      uniqueKeysWithValues: names.map { name in
        (name, try Data(contentsOf: folder.appendingPathComponent(name)))
      })
  }

  private func writeSource(_ file: Int, text: String? = nil) throws {
    let functions = (1...25).map { number in
      """
      double f\(number)(const double *a, int n) {
        double sum = \(file);
        for (int i = 0; i < n; i++) sum += a[i] * sin(a[i]) / (i + \(number));
        return sum;
      }
      """
    }
    let generated = "#include <math.h>\n#include <stdio.h>\n" + functions.joined(separator: "\n")
    try Data("\(text ?? generated)\n".utf8)
      .write(to: directory.appendingPathComponent("file\(file).c"))
  }

  private func check(_ condition: Bool, _ expectation: String) -> Bool {
    if !condition { print("  WRONG: expected \(expectation)") }
    return condition
  }
}

extension Duration {
  fileprivate var milliseconds: Int { Int(self / .milliseconds(1)) }
}
