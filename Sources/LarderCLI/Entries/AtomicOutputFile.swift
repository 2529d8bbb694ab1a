// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderMemo

/// The file that an export writes: under a name of its own until it is whole, so that what was there
/// before stays until then.
///
/// `-` is standard output. What is no regular file (a pipe, a device) is written to as it is, and a
/// symbolic link stays one: the file it leads to is replaced. A file that is replaced keeps its mode.
final class AtomicOutputFile {
  let handle: FileHandle
  private let place: Place?

  private struct Place {
    /// Where the file is while it is written.
    let part: String
    let path: String
  }

  private enum Kind { case missing, regular, directory, other }

  /// Opens the file; nothing of what is there is touched.
  init(_ file: String) throws {
    if file == "-" {
      (handle, place) = (.standardOutput, nil)
      return
    }
    let path = URL(fileURLWithPath: file).resolvingSymlinksInPath().path
    switch Self.kind(of: path) {
    case .directory:
      throw ToolError.usage("\(file) is a directory. Name a file in it.")
    case .other:
      guard let open = FileHandle(forWritingAtPath: path) else {
        throw ToolError("file", "\(file) cannot be written.")
      }
      (handle, place) = (open, nil)
    case .missing, .regular:
      // The number: two that write the same file at once do not write into one another.
      let part = "\(path).part-\(ProcessInfo.processInfo.processIdentifier)"
      guard FileManager.default.createFile(atPath: part, contents: nil),
        let open = FileHandle(forWritingAtPath: part)
      else {
        throw ToolError(
          "file", "\(part) cannot be made. Is its directory there, and yours to write to?")
      }
      // Before anything is in it: what only some could read stays so.
      if let mode = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] {
        try? FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: part)
      }
      (handle, place) = (open, Place(part: part, path: path))
      // Whoever interrupts an export does not want half of it.
      try CommandProxy.removeWhenInterrupted(part)
    }
  }

  /// Gives the whole file its name.
  func finish() throws {
    guard let place else { return }
    do {
      try handle.synchronize()
      try handle.close()
    } catch {
      throw ToolError("file", "\(place.part) cannot be written: \(error.localizedDescription)")
    }
    do { try CommandProxy.rename(place.part, to: place.path) } catch {
      throw ToolError("file", "\(place.part) cannot get its name: \(error)")
    }
  }

  /// Takes back what was begun.
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
