// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

#if canImport(Glibc)
// `environ` is a global variable; the compiler cannot prove that no code writes it.
@unsafe @preconcurrency internal import Glibc
#elseif canImport(Musl)
@unsafe @preconcurrency internal import Musl
#else
internal import Darwin
#endif

/// The exit status or signal of an ended process.
package enum TerminationStatus: Hashable, Sendable {
  case exited(UInt8)
  case killed(signal: UInt8)

  package init(waitStatus status: CInt) {
    let signal = UInt8(status & 0x7F)
    self = signal == 0 ? .exited(UInt8((status >> 8) & 0xFF)) : .killed(signal: signal)
  }

  package var isSuccess: Bool { self == .exited(0) }

  /// The value of a shell's `$?`.
  package var code: CInt {
    switch self {
    case .exited(let code): CInt(code)
    case .killed(let signal): 128 + CInt(signal)
    }
  }
}

/// Another program, started by `posix_spawn`.
package struct SpawnConfiguration: Sendable {
  /// The file that runs; it need not be UTF-8.
  package var path: [UInt8]
  /// The arguments; the first is the program's name.
  package var arguments: [[UInt8]]
  /// Whether it reads this process's standard input; `/dev/null` otherwise.
  package var inheritsInput = false
  /// The descriptor for its standard input, which precedes `inheritsInput`.
  package var input: CInt?
  /// The descriptor for its standard output and error, or `nil` for this process's.
  package var output: CInt?
  package var error: CInt?
  /// Whether it runs in a new session without this process's terminal and descriptors.
  package var isDetached = false

  package init(path: [UInt8], arguments: [[UInt8]]) {
    self.path = path
    self.arguments = arguments
  }

  /// Starts it, with the signals as a new process has them.
  ///
  /// A script without an interpreter's line is run by `/bin/sh`, as shells do.
  ///
  /// - Returns: Its pid.
  package func start() throws(SystemError) -> Int32 {
    do throws(SystemError) {
      return try spawn(path, arguments)
    } catch {
      guard error.errno == ENOEXEC else { throw error }
      return try spawn(Array("/bin/sh".utf8), Self.shell(path) + arguments.dropFirst())
    }
  }

  private func spawn(_ path: [UInt8], _ arguments: [[UInt8]]) throws(SystemError) -> Int32 {
    #if canImport(Darwin)
    var actions: posix_spawn_file_actions_t?
    var attributes: posix_spawnattr_t?
    let newSession: Int16 = 0x0400
    #else
    var actions = unsafe posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    // A feature macro hides the constant.
    let newSession: Int16 = 0x80
    #endif
    _ = unsafe posix_spawn_file_actions_init(&actions)
    defer { _ = unsafe posix_spawn_file_actions_destroy(&actions) }
    if let input {
      _ = unsafe posix_spawn_file_actions_adddup2(&actions, input, 0)
    } else if !inheritsInput {
      _ = unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    }
    for (number, descriptor) in [(CInt(1), output), (2, error)] {
      if let descriptor {
        _ = unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, number)
      } else if isDetached {
        _ = unsafe posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_WRONLY, 0)
      }
    }
    if isDetached { RawDescriptor.setCloseOnExec() }

    _ = unsafe posix_spawnattr_init(&attributes)
    defer { _ = unsafe posix_spawnattr_destroy(&attributes) }
    // Caught signals get their default again automatically; a broken pipe is ignored here.
    var defaults = sigset_t()
    var none = sigset_t()
    _ = unsafe sigemptyset(&defaults)
    _ = unsafe sigemptyset(&none)
    _ = unsafe sigaddset(&defaults, SIGPIPE)
    _ = unsafe posix_spawnattr_setsigdefault(&attributes, &defaults)
    _ = unsafe posix_spawnattr_setsigmask(&attributes, &none)
    _ = unsafe posix_spawnattr_setflags(
      &attributes,
      Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF) | (isDetached ? newSession : 0))

    var pid: pid_t = 0
    let file = FileSystem.cString(path)
    let code = unsafe Self.withCStrings(arguments) { pointers in
      #if canImport(Darwin)
      unsafe posix_spawn(&pid, file, &actions, &attributes, pointers, _NSGetEnviron().pointee)
      #else
      unsafe posix_spawn(&pid, file, &actions, &attributes, pointers, environ)
      #endif
    }
    guard code == 0 else { throw SystemError(errno: code, operation: "posix_spawn", path: name) }
    return pid
  }

  /// Becomes the program: what is left of this process are its pid and its descriptors.
  ///
  /// - Returns: Only when that failed.
  package func replaceThisProcess() -> SystemError {
    if !inheritsInput {
      let null = Self.openNull()
      if null >= 0 { dup2(null, 0) }
    }
    _ = signal(SIGPIPE, SIG_DFL)
    let file = FileSystem.cString(path)
    _ = unsafe Self.withCStrings(arguments) { unsafe execv(file, $0) }
    if currentErrno() == ENOEXEC {
      _ = unsafe Self.withCStrings(Self.shell(path) + arguments.dropFirst()) {
        unsafe execv("/bin/sh", $0)
      }
    }
    return .last("execv", name)
  }

  private static func openNull() -> CInt { unsafe larder_open("/dev/null", O_RDONLY, 0) }

  /// The path for people.
  private var name: String { String(decoding: path, as: UTF8.self) }

  private static func shell(_ script: [UInt8]) -> [[UInt8]] {
    [Array("sh".utf8), script]
  }

  private static func withCStrings<R>(
    _ strings: [[UInt8]], _ body: ([UnsafeMutablePointer<CChar>?]) -> R
  ) -> R {
    var pointers: [UnsafeMutablePointer<CChar>?] = unsafe strings.map { bytes in
      let text = bytes.map { CChar(bitPattern: $0) } + [0]
      return unsafe text.withUnsafeBufferPointer { unsafe strdup($0.baseAddress!) }
    }
    unsafe pointers.append(nil)
    defer { unsafe pointers.forEach { unsafe free($0) } }
    return unsafe body(pointers)
  }

  /// Returns the status of a child that has ended, and removes it from the system's table.
  package static func end(of pid: Int32) -> TerminationStatus? {
    var status: CInt = 0
    while true {
      let result = unsafe waitpid(pid, &status, WNOHANG)
      if result == pid { return TerminationStatus(waitStatus: status) }
      if result == 0 { return nil }
      // SIGCHLD was already ignored at the start of this process: the status is unavailable.
      if currentErrno() != EINTR { return .exited(0) }
    }
  }

  /// Waits for the end of a child, and returns its status.
  package static func waitForEnd(of pid: Int32) -> TerminationStatus {
    var status: CInt = 0
    while unsafe waitpid(pid, &status, 0) != pid {
      if currentErrno() != EINTR { return .exited(0) }
    }
    return TerminationStatus(waitStatus: status)
  }

  package static func send(_ signal: CInt, to pid: Int32) { kill(pid, signal) }
}

/// Sets `SIGCHLD` so that children can be waited for, whatever this process was started with.
package func restoreDefaultSIGCHLD() { _ = signal(SIGCHLD, SIG_DFL) }
