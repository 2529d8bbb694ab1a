// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A spawned process: its identifier and this process's ends of the pipes.
struct SpawnedProcess {
  let processIdentifier: Int32
  let input: Int32
  let output: Int32
  let error: Int32?

  init(
    _ executable: String, _ arguments: [String], environment: [String: String],
    workingDirectory: String?, capturesStandardError: Bool
  ) throws(SystemCallError) {
    Self.ignoreBrokenPipes
    self = try Self.lock.withLock { _ throws(SystemCallError) in
      try Self(
        exclusively: executable, arguments, environment: Self.environment(with: environment),
        workingDirectory: workingDirectory, capturesStandardError: capturesStandardError)
    }
  }

  /// One child at a time: see ``POSIX/pipe()``.
  private static let lock = Mutex(())

  private init(
    exclusively executable: String, _ arguments: [String], environment: [String],
    workingDirectory: String?, capturesStandardError: Bool
  ) throws(SystemCallError) {
    var opened: [Int32] = []
    do throws(SystemCallError) {
      let inputPipe = try POSIX.pipe()
      opened += [inputPipe.readEnd, inputPipe.writeEnd]
      let outputPipe = try POSIX.pipe()
      opened += [outputPipe.readEnd, outputPipe.writeEnd]
      let error = capturesStandardError ? try POSIX.anonymousFile() : nil
      if let error { opened.append(error) }
      try POSIX.makeNonBlocking(inputPipe.writeEnd)
      try POSIX.makeNonBlocking(outputPipe.readEnd)

      processIdentifier = try Self.spawn(
        executable, arguments: [executable] + arguments, environment: environment,
        workingDirectory: workingDirectory,
        descriptors: [inputPipe.readEnd, outputPipe.writeEnd] + (error.map { [$0] } ?? []))
      close(inputPipe.readEnd)
      close(outputPipe.writeEnd)
      input = inputPipe.writeEnd
      output = outputPipe.readEnd
      self.error = error
    } catch {
      for descriptor in opened { close(descriptor) }
      throw error
    }
  }

  /// Ignores SIGPIPE: a write to a child that has exited must fail, and not end this process. Children
  /// get the default action.
  private static let ignoreBrokenPipes: Void = {
    _ = signal(SIGPIPE, SIG_IGN)
  }()

  private static func environment(with additions: [String: String]) -> [String] {
    let all = additions.merging(["SWIFT_BACKTRACE": "enable=no"]) { given, _ in given }
    let kept = POSIX.environment().filter { entry in
      all[String(entry.prefix { $0 != "=" })] == nil
    }
    return kept + all.map { "\($0.key)=\($0.value)" }
  }

  /// Starts the process with `descriptors[n]` as its descriptor `n`.
  private static func spawn(
    _ executable: String, arguments: [String], environment: [String], workingDirectory: String?,
    descriptors: [Int32]
  ) throws(SystemCallError) -> Int32 {
    #if canImport(Darwin)
    var actions: posix_spawn_file_actions_t?
    var attributes: posix_spawnattr_t?
    let system = Int16(POSIX_SPAWN_CLOEXEC_DEFAULT)
    #else
    var actions = unsafe posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    let system: Int16 = 0
    #endif
    _ = unsafe posix_spawn_file_actions_init(&actions)
    defer { _ = unsafe posix_spawn_file_actions_destroy(&actions) }
    for (number, descriptor) in descriptors.enumerated() {
      _ = unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(number))
    }
    #if canImport(Darwin)
    if descriptors.count < 3 { _ = posix_spawn_file_actions_addinherit_np(&actions, 2) }
    #endif

    if let workingDirectory, unsafe addDirectory(workingDirectory, to: &actions) != 0 {
      throw SystemCallError(call: "posix_spawn_file_actions_addchdir_np", errno: ENOSYS)
    }

    // A child starts with no signal blocked or ignored, independent of the test runner.
    _ = unsafe posix_spawnattr_init(&attributes)
    defer { _ = unsafe posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    var defaults = sigset_t()
    _ = unsafe sigemptyset(&none)
    _ = unsafe sigemptyset(&defaults)
    for signal in [SIGPIPE, SIGINT, SIGTERM, SIGHUP] { _ = unsafe sigaddset(&defaults, signal) }
    _ = unsafe posix_spawnattr_setsigmask(&attributes, &none)
    _ = unsafe posix_spawnattr_setsigdefault(&attributes, &defaults)
    _ = unsafe posix_spawnattr_setflags(
      &attributes, system | Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF))

    var identifier: pid_t = 0
    let result = unsafe withCStrings(arguments) { argumentPointers in
      unsafe withCStrings(environment) { environmentPointers in
        unsafe posix_spawnp(
          &identifier, executable, &actions, &attributes, argumentPointers, environmentPointers)
      }
    }
    if result != 0 { throw SystemCallError(call: "posix_spawn", errno: result) }
    return identifier
  }

  #if canImport(Darwin)
  private static func addDirectory(
    _ path: String, to actions: inout posix_spawn_file_actions_t?
  ) -> Int32 {
    unsafe posix_spawn_file_actions_addchdir_np(&actions, path)
  }
  #else
  /// glibc has it since 2.29, but declares it only under a feature macro.
  private static func addDirectory(
    _ path: String, to actions: UnsafeMutablePointer<posix_spawn_file_actions_t>
  ) -> Int32 {
    typealias AddDirectory =
      @convention(c) (
        UnsafeMutablePointer<posix_spawn_file_actions_t>, UnsafePointer<CChar>
      ) -> Int32
    guard let symbol = unsafe dlsym(nil, "posix_spawn_file_actions_addchdir_np") else {
      return -1
    }
    let add = unsafe unsafeBitCast(symbol, to: AddDirectory.self)
    return unsafe add(actions, path)
  }
  #endif

  private static func withCStrings<Result>(
    _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
  ) -> Result {
    let pointers = unsafe strings.map { unsafe strdup($0) } + [nil]
    defer { unsafe pointers.forEach { unsafe free($0) } }
    return unsafe body(pointers)
  }
}

/// `kill(2)`, which a method of ``ChildProcess`` shadows there.
func signalProcess(_ identifier: Int32, _ signal: Int32) -> Int32 {
  kill(identifier, signal)
}
