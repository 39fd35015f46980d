/** Runs all tests and prints a line for each. */
public final class Outside {
    private Outside() {}

    /** A test, which returns in a few words how it went. */
    private interface Story {
        String run() throws Exception;
    }

    public static void main(String[] names) {
        boolean ok;
        try (Account account = new Account()) {
            ok = passes("GROUP BY", () -> Groups.run(account));
            for (Form form : Form.values()) {
                ok &= passes(form.toString(), () -> Processors.run(account, form));
            }
        }
        System.exit(ok ? 0 : 1); // the client leaves threads
    }

    private static boolean passes(String name, Story story) {
        try {
            System.out.println(name + ": ok, " + story.run());
            return true;
        } catch (Exception | AssertionError e) {
            System.out.println(name + ": failed");
            e.printStackTrace(System.out);
            return false;
        }
    }
}
