// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderMemo

/// The output file of an export. It has a temporary name until it is complete, so an existing file
/// stays until then.
///
/// `-` is standard output. A pipe or a device is written directly. A symbolic link stays: the file
/// that it points to is replaced. A replaced file keeps its mode. The temporary file of a process that
/// was killed is removed by the next export to the same path: its writer has a lock of it, which the
/// kernel releases.
final class AtomicOutputFile {
  let handle: FileHandle
  private let place: Place?

  private struct Place {
    /// The temporary path while the file is written.
    let part: String
    let path: String
    /// The lock of the temporary file.
    let lock: CommandProxy.FileLock?
  }

  private enum Kind { case missing, regular, directory, other }

  /// Opens the file. An existing file is not changed.
  init(_ file: String) throws {
    if file == "-" {
      if CommandProxy.isWithoutOutput {
        throw ToolError("file", "Cannot write standard output: it is closed.")
      }
      (handle, place) = (.standardOutput, nil)
      return
    }
    let path = URL(fileURLWithPath: file).resolvingSymlinksInPath().path
    switch Self.kind(of: path) {
    case .directory:
      throw ToolError.usage("\(file) is a directory. Name a file in it.")
    case .other:
      (handle, place) = (try Self.opened(path), nil)
    case .missing, .regular:
      // The pid in the name: two exports to one file do not write into the same temporary file.
      Self.removeParts(of: path)
      let part = "\(path)\(Self.mark)\(ProcessInfo.processInfo.processIdentifier)"
      let lock = try Self.created(part)
      let open = try Self.opened(part)
      // Before the first write: a file that few users can read stays so.
      if let mode = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] {
        try? FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: part)
      }
      (handle, place) = (open, Place(part: part, path: path, lock: lock))
      // An interrupted export leaves no partial file.
      try CommandProxy.removeWhenInterrupted(part)
    }
  }

  /// Creates a temporary file, and returns its lock. Before it is locked, another export may remove it.
  private static func created(_ part: String) throws -> CommandProxy.FileLock? {
    for _ in 0..<10 {
      do { try Data().write(to: URL(fileURLWithPath: part)) } catch {
        throw ToolError(
          "file",
          "Cannot create \(part): \(error.localizedDescription) Check that its directory exists and "
            + "is writable.")
      }
      if let lock = CommandProxy.FileLock(part), kind(of: part) == .regular { return lock }
    }
    // A file system without locks: there no export removes it.
    return nil
  }

  private static let mark = ".larder-part-"

  /// Removes the temporary files of exports to a path whose processes were killed.
  private static func removeParts(of path: String) {
    let url = URL(fileURLWithPath: path)
    let directory = url.deletingLastPathComponent().path
    let prefix = url.lastPathComponent + mark
    for name in (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    where name.hasPrefix(prefix) && Int32(name.dropFirst(prefix.count)) != nil {
      CommandProxy.removeUnlocked(directory + "/" + name)
    }
  }

  private static func opened(_ path: String) throws -> FileHandle {
    do { return try FileHandle(forWritingTo: URL(fileURLWithPath: path)) } catch {
      throw ToolError(
        "file", "Cannot write \(path): \(error.localizedDescription) Check its permissions.")
    }
  }

  /// Renames the complete file to its path.
  func finish() throws {
    guard let place else { return }
    do {
      try handle.synchronize()
      try handle.close()
    } catch {
      throw ToolError("file", "Cannot write \(place.part): \(error.localizedDescription)")
    }
    do { try CommandProxy.rename(place.part, to: place.path) } catch {
      throw ToolError("file", "Cannot rename \(place.part) to \(place.path): \(error)")
    }
  }

  /// Removes the temporary file.
  func discard() {
    if let place { try? FileManager.default.removeItem(atPath: place.part) }
  }

  private static func kind(of path: String) -> Kind {
    guard
      let type = try? FileManager.default.attributesOfItem(atPath: path)[.type]
        as? FileAttributeType
    else { return .missing }
    switch type {
    case .typeRegular: return .regular
    case .typeDirectory: return .directory
    default: return .other
    }
  }
}

/// The contents of an export, which are written to its file in pieces.
struct OutputBuffer {
  private let handle: FileHandle
  private let file: String
  var bytes: [UInt8] = []

  init(_ handle: FileHandle, file: String) {
    self.handle = handle
    self.file = file
    bytes.reserveCapacity(1 << 17)
  }

  /// Writes the bytes if they are at least 64 KiB.
  mutating func writeIfFull() throws {
    if bytes.count >= 1 << 16 { try write() }
  }

  /// Writes all bytes.
  mutating func write() throws {
    do { try handle.write(contentsOf: bytes) } catch {
      throw ToolError(
        "file",
        "Cannot write \(file == "-" ? "standard output" : file): \(error.localizedDescription)")
    }
    bytes.removeAll(keepingCapacity: true)
  }
}
#endif
